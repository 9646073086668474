"""The policy of the care of a state: what is proposed, and what may happen without a person."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stateward.contract.reading import InvalidDocumentError, as_json
from stateward.contract.state_care import CareRecord, Change, Look, care_record_from
from stateward.control.care.policy import (
    Decision,
    Policy,
    Rules,
    decide,
    proposals,
    wanted_partitions,
)

NOW = datetime(2026, 3, 10, 3, tzinfo=UTC)
DAY = timedelta(days=1)
LOOK = Look(
    at=NOW,
    partitions=2,
    advised=2,
    advised_today=2,
    keys=50_000,
    state_bytes=400_000_000,
    files_bytes=800_000_000,
    largest_bytes=220_000_000,
    median_bytes=200_000_000,
    records_per_s=1_000,
    records_per_s_today=900,
    cores=4,
    batch_ms=800,
    buckets=64,
    state_version=2,
)
MORE = replace(LOOK, advised=4, advised_today=4)
FEWER = replace(LOOK, partitions=8, advised=2, advised_today=1)
UNEVEN = replace(LOOK, median_bytes=100_000_000, advised_buckets=256)
OLD = replace(LOOK, old_versions=(1,))


def rules(policy: Policy = "auto", **changes: Any) -> Rules:
    return Rules(**{"policy": policy, "looks": 3, "max_pause": timedelta(minutes=30), **changes})


def nightly(*looks: Look, apart: timedelta = DAY) -> CareRecord:
    """A look each night, the last one now."""
    at = [NOW - apart * back for back in reversed(range(len(looks)))]
    return CareRecord(
        stream="s", looks=tuple(replace(look, at=one) for look, one in zip(looks, at, strict=True))
    )


def changed(**fields: Any) -> Change:
    return Change(
        **{"at": NOW - 2 * DAY, "kind": "repartition", "before": 1, "after": 2, "outcome": "done", **fields}
    )


def found(record: CareRecord, policy: Policy = "auto", **changes: Any) -> tuple[str, str]:
    decision = decide(rules(policy, **changes), record, NOW)
    return decision.step, decision.because


@pytest.mark.parametrize(
    ("look", "kind", "before", "after"),
    [
        pytest.param(MORE, "repartition", 2, 4, id="more partitions"),
        pytest.param(FEWER, "repartition", 8, 2, id="fewer"),
        pytest.param(UNEVEN, "rebucket", 64, 256, id="other buckets"),
        pytest.param(OLD, "migrate", 1, 2, id="the newest version"),
    ],
)
def test_a_proposal_names_what_it_costs_and_saves(look: Look, kind: str, before: int, after: int) -> None:
    [proposal] = proposals(rules(), nightly(look))
    assert (proposal.kind, proposal.before, proposal.after) == (kind, before, after)
    assert proposal.verb == ("repartition" if kind == "repartition" else "migrate")
    fields = {"repartition": {"partitions": after}, "rebucket": {"buckets": after}, "migrate": {}}
    assert proposal.fields == fields[kind]
    assert proposal.cost.pause_s == 206, (
        "90 s, 400 MB of state at 4 MB/s, and 800 MB of files twice at 100 MB/s"
    )
    assert proposal.cost.written_bytes == 2 * 800_000_000
    assert proposal.reasons
    assert proposal.saving.largest_bytes[0] == 220_000_000


def test_more_partitions_are_faster_up_to_the_cores_and_fewer_are_fewer_tasks() -> None:
    [more] = proposals(rules(), nightly(MORE))
    assert (more.saving.batch_ms, more.saving.largest_bytes[1]) == ((800, 400), 100_000_000)
    [many] = proposals(rules(), nightly(replace(MORE, cores=2)))
    assert many.saving.batch_ms is None, "two cores work on two partitions at a time"
    [fewer] = proposals(rules(), nightly(FEWER))
    assert (fewer.saving.tasks, fewer.saving.batch_ms) == ((8, 2), None)


def test_a_quiet_day_makes_no_partition_go_and_an_old_peak_makes_none_come() -> None:
    assert wanted_partitions(replace(LOOK, partitions=4, advised=4, advised_today=1)) == 4
    assert wanted_partitions(replace(LOOK, partitions=4, advised=8, advised_today=4)) == 4
    assert wanted_partitions(replace(LOOK, partitions=4, advised=8, advised_today=8), 6) == 6


@pytest.mark.parametrize(
    ("record", "policy", "expected"),
    [
        pytest.param(nightly(MORE), "off", ("none", "off"), id="off"),
        pytest.param(CareRecord(stream="s"), "auto", ("none", "no_look"), id="never looked"),
        pytest.param(nightly(replace(MORE, keys=0)), "auto", ("none", "fits"), id="no state"),
        pytest.param(nightly(LOOK), "auto", ("none", "fits"), id="as it should be"),
        pytest.param(nightly(MORE, MORE, MORE), "propose", ("propose", "policy"), id="only proposed"),
        pytest.param(nightly(MORE), "approve", ("ask", "policy"), id="a person is asked at once"),
        pytest.param(nightly(MORE, MORE), "auto", ("propose", "not_held"), id="two looks are too few"),
        pytest.param(nightly(MORE, MORE, MORE), "auto", ("act", "held"), id="three in a row"),
        pytest.param(nightly(MORE, LOOK, MORE, MORE), "auto", ("propose", "not_held"), id="not in a row"),
        pytest.param(
            nightly(MORE, MORE, MORE, apart=9 * DAY), "auto", ("propose", "not_held"), id="too far apart"
        ),
        pytest.param(nightly(UNEVEN, UNEVEN, UNEVEN), "auto", ("act", "held"), id="other buckets"),
        pytest.param(nightly(OLD, OLD, OLD), "auto", ("act", "held"), id="a migration"),
    ],
)
def test_a_policy_decides(record: CareRecord, policy: Policy, expected: tuple[str, str]) -> None:
    assert found(record, policy) == expected


@pytest.mark.parametrize(
    ("change", "policy", "expected"),
    [
        pytest.param(changed(at=NOW - timedelta(hours=2)), "approve", "too_soon", id="the same day"),
        pytest.param(changed(at=NOW - timedelta(hours=11)), "approve", "too_soon", id="last evening"),
        pytest.param(changed(at=NOW - DAY), "approve", "policy", id="yesterday"),
        pytest.param(changed(at=NOW - timedelta(hours=2), outcome="begun"), "auto", "too_soon", id="begun"),
        pytest.param(changed(at=NOW - 6 * DAY, outcome="failed"), "auto", "failed_before", id="it failed"),
        pytest.param(
            changed(at=NOW - 6 * DAY, outcome="failed", kind="migrate"), "auto", "held", id="another failed"
        ),
        pytest.param(changed(at=NOW - 8 * DAY, outcome="failed"), "auto", "held", id="it failed long ago"),
        pytest.param(
            changed(at=NOW - DAY, outcome="refused", after=4), "approve", "refused_before", id="refused"
        ),
        pytest.param(
            changed(at=NOW - DAY, outcome="refused", after=8), "approve", "policy", id="another was refused"
        ),
        pytest.param(changed(at=NOW - 2 * DAY), "auto", "not_held", id="looks before a change do not count"),
        pytest.param(changed(at=NOW - 3 * DAY), "auto", "held", id="three looks since"),
    ],
)
def test_a_change_before_it_may_stand_in_the_way(change: Change, policy: Policy, expected: str) -> None:
    record = replace(nightly(*(MORE,) * 5), changes=(change,))
    assert found(record, policy)[1] == expected


def test_auto_asks_before_a_change_whose_pause_is_too_long() -> None:
    record = nightly(MORE, MORE, MORE)
    assert found(record, max_pause=timedelta(seconds=205)) == ("ask", "long_pause")
    assert found(record, "approve", max_pause=timedelta(seconds=205)) == ("ask", "policy")


@pytest.mark.parametrize("policy", ["approve", "auto"])
def test_a_change_does_not_bring_another_release_in(policy: Policy) -> None:
    decision = decide(rules(policy), nightly(MORE, MORE, MORE), NOW, is_outdated=True)
    assert (decision.step, decision.because) == ("propose", "upgrade_first")


def test_the_number_is_the_one_on_which_all_looks_agree() -> None:
    record = nightly(replace(MORE, advised_today=8), MORE, replace(MORE, advised_today=8))
    assert decide(rules(), record, NOW).proposals[0].after == 4
    record = nightly(replace(FEWER, advised=3), FEWER, FEWER)
    assert decide(rules(), record, NOW).proposals[0].after == 3


def test_a_quarter_more_partitions_are_not_worth_a_stop_unless_they_are_uneven() -> None:
    eight = replace(LOOK, partitions=8, advised=10, advised_today=10)
    assert proposals(rules(), nightly(eight)) == ()
    assert [one.after for one in proposals(rules(), nightly(replace(eight, advised_today=11)))] == [11]
    uneven = replace(eight, median_bytes=100_000_000)
    assert [one.after for one in proposals(rules(), nightly(uneven))] == [10]


def test_what_is_possible_comes_before_what_has_to_wait() -> None:
    look = replace(UNEVEN, old_versions=(1,))
    decision = decide(rules(), nightly(look, look, look), NOW)
    assert (decision.step, [one.kind for one in decision.proposals]) == ("act", ["rebucket", "migrate"])
    failed = changed(at=NOW - 5 * DAY, kind="rebucket", outcome="failed")
    decision = decide(rules(), replace(nightly(look, look, look), changes=(failed,)), NOW)
    assert (decision.step, [one.kind for one in decision.proposals]) == ("act", ["migrate", "rebucket"])


def test_a_record_is_read_as_it_was_written() -> None:
    record = replace(nightly(MORE, OLD), changes=(changed(pause_s=1.5),))
    assert care_record_from(as_json(record), "care") == record
    with pytest.raises(InvalidDocumentError, match="care: expected version 1, found 2"):
        care_record_from({**as_json(record), "version": 2}, "care")
    # One of a later release, with a field more.
    assert care_record_from({**as_json(record), "later": 1}, "care") == record


looks = st.builds(
    lambda partitions, advised, less, hours: (
        replace(LOOK, partitions=partitions, advised=advised, advised_today=max(1, advised - less)),
        hours,
    ),
    st.integers(1, 16),
    st.integers(1, 16),
    st.integers(0, 8),
    st.integers(1, 48),
)


@given(st.lists(looks, min_size=1, max_size=40), st.integers(1, 4))
def test_auto_never_moves_twice_in_a_day_and_only_on_advice_that_has_held(
    given_looks: list[tuple[Look, int]], enough: int
) -> None:
    record, at, partitions = CareRecord(stream="s"), NOW, 2
    for look, hours in given_looks:
        at += timedelta(hours=hours)
        record = replace(record, looks=(*record.looks, replace(look, at=at, partitions=partitions)))
        decision = decide(rules(looks=enough), record, at)
        if decision.step != "act":
            continue
        after = decision.proposals[0].after
        newest = record.looks[-enough:]
        assert len(newest) == enough
        assert {one.partitions for one in newest} == {partitions}
        assert all((wanted_partitions(one) > partitions) == (after > partitions) for one in newest)
        assert after in {wanted_partitions(one) for one in newest} - {partitions}
        before = [one.at for one in record.changes]
        assert all(one.date() != at.date() and at - one >= timedelta(hours=12) for one in before)
        record = replace(record, changes=(*record.changes, changed(at=at, before=partitions, after=after)))
        partitions = after


@given(st.lists(looks, min_size=1, max_size=5), st.sampled_from(["off", "propose"]))
def test_nothing_happens_where_nothing_may(given_looks: list[tuple[Look, int]], policy: Policy) -> None:
    decision: Decision = decide(rules(policy), nightly(*(look for look, _ in given_looks)), NOW)
    assert decision.step in ("none", "propose")


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
past_changes = st.lists(
    st.builds(
        lambda hours, kind, outcome: changed(at=NOW - timedelta(hours=hours), kind=kind, outcome=outcome),
        st.integers(0, 200),
        st.sampled_from(["repartition", "migrate"]),
        st.sampled_from(["done", "failed", "refused", "begun"]),
    ),
    max_size=3,
)


@given(st.lists(looks, min_size=1, max_size=8), past_changes, st.sampled_from(["approve", "auto"]))
def test_a_day_of_two_minutes_decides_as_a_day(
    given_looks: list[tuple[Look, int]], changes: list[Change], policy: Policy
) -> None:
    """Only times count that are measured in days."""
    record, at = CareRecord(stream="s", changes=tuple(sorted(changes, key=lambda one: one.at))), NOW
    for look, hours in given_looks:
        record = replace(record, looks=(*record.looks, replace(look, at=at, partitions=2)))
        at += timedelta(hours=hours)

    def sooner(moment: datetime) -> datetime:
        return EPOCH + (moment - EPOCH) / 720

    short = replace(
        record,
        looks=tuple(replace(one, at=sooner(one.at)) for one in record.looks),
        changes=tuple(replace(one, at=sooner(one.at)) for one in record.changes),
    )
    decided = decide(rules(policy), record, at)
    assert decide(rules(policy, day=timedelta(minutes=2)), short, sooner(at)) == decided
