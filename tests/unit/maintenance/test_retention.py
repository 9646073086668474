"""What has to stay of a table: time travel, savepoints, validations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from stateward.maintenance.retention import Need, Retention, retention

NOW = datetime(2026, 1, 10, tzinfo=UTC)
DAY = timedelta(days=1)


def kept(*needs: Need, first: int = 0, then: int = 80, newest: int = 100) -> Retention:
    return retention(
        now=NOW, history=DAY, newest=newest, first_on_record=first, as_of_history=then, needs=needs
    )


def test_without_savepoints_time_travel_decides() -> None:
    assert kept() == Retention(80, "time travel of 1 d", NOW - DAY, (), ())


def test_the_oldest_that_is_referred_to_decides_and_says_so() -> None:
    found = kept(Need(70, "validation b"), Need(40, "savepoint a"), Need(90, "validation c"))

    assert (found.oldest_version, found.because) == (40, "savepoint a")
    assert found.pinned == (40, 70, 90), "those that time travel keeps may lose nothing by it either"


def test_what_is_not_on_record_any_more_is_named_and_stops_nothing() -> None:
    found = kept(Need(3, "savepoint a"), Need(120, "savepoint of another life"), first=10)

    assert (found.oldest_version, found.pinned) == (80, ())
    assert [need.version for need in found.lost] == [3, 120]


versions = st.integers(min_value=0, max_value=200)


@given(
    st.lists(st.builds(Need, versions, st.sampled_from(["savepoint", "validation"]))),
    versions,
    versions,
    versions,
)
def test_no_version_is_given_up_that_somebody_needs(
    needs: list[Need], one: int, other: int, then: int
) -> None:
    first, newest = sorted((one, other))
    found = kept(*needs, first=first, then=then, newest=newest)

    on_record = {need.version for need in needs if first <= need.version <= newest}
    assert set(found.pinned) == on_record
    assert {need.version for need in found.lost} == {need.version for need in needs} - on_record
    assert first <= found.oldest_version <= newest
    assert found.oldest_version <= max(first, min(then, newest)), "time travel reaches as far as it can"
    assert all(found.oldest_version <= version for version in found.pinned)


@given(
    st.lists(st.builds(Need, versions, st.just("savepoint"))), st.builds(Need, versions, st.just("one more"))
)
def test_a_need_more_never_removes_more(needs: list[Need], more: Need) -> None:
    before, after = kept(*needs), kept(*needs, more)

    assert after.oldest_version <= before.oldest_version
    assert set(before.pinned) <= set(after.pinned)
