"""The expected pause of a change: a fixed part and one by size, from what earlier changes took."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stateward.contract.state_care import Change
from stateward.control.care.cost import cost_of, savepoint_cost
from tests.unit.control.care.test_policy import LOOK, changed

MB, GB = 10**6, 10**9
# By the known rates, of a GB of keys and states with two GB of files.
S_PER_GB = 290


def made(*measured: tuple[float, float]) -> tuple[Change, ...]:
    """Changes, each by the size of its keys and states, bytes, and its pause, seconds."""
    return tuple(
        changed(state_bytes=int(size), files_bytes=2 * int(size), pause_s=pause) for size, pause in measured
    )


def expected(size: float, changes: Sequence[Change]) -> float:
    look = replace(LOOK, state_bytes=int(size), files_bytes=2 * int(size))
    return cost_of("repartition", look, changes).pause_s


def test_without_a_change_of_its_kind_the_known_rates_count() -> None:
    others = (
        changed(kind="migrate", pause_s=9.0, files_bytes=MB),
        changed(outcome="failed", pause_s=9.0, files_bytes=MB),
        changed(outcome="begun", files_bytes=MB),
    )
    for changes in ((), others):
        cost = cost_of("repartition", LOOK, changes)
        assert (cost.pause_s, cost.is_measured) == (206, False)
    cost = cost_of("migrate", replace(LOOK, state_bytes=MB // 2, files_bytes=MB), others)
    assert cost.pause_s == pytest.approx(9) and cost.is_measured
    assert savepoint_cost(GB).pause_s == 100


def test_a_slow_change_of_a_small_state_says_little_about_a_larger_one() -> None:
    slow = made((MB, 207))
    assert expected(2 * MB, slow) == pytest.approx(207, abs=1), "most of it is fixed"
    assert expected(10 * GB, slow) == pytest.approx(207 + 10 * S_PER_GB, rel=0.01)
    # Two that differ by chance, the larger one being slower, and the smaller one.
    for before, last in ((99, 207), (207, 99)):
        by_chance = made((MB, before), (2 * MB, last))
        assert expected(10 * GB, by_chance) == pytest.approx(last + 10 * S_PER_GB, rel=0.01)


def test_the_pauses_of_a_run_of_small_moves_are_expected_to_be_as_the_last() -> None:
    """Those of `make care` on a busy machine: the last pause in proportion to the files was 471 s."""
    run = made((0.8 * MB, 207), (1.9 * MB, 99), (4.6 * MB, 110), (9.8 * MB, 238), (2 * MB, 150))
    for number in range(1, len(run)):
        last = run[number - 1].pause_s
        assert expected(run[number].state_bytes, run[:number]) == pytest.approx(last, abs=3)


def test_large_changes_have_their_own_rate() -> None:
    slow = made((1 * GB, 600), (10 * GB, 6_000))
    assert expected(20 * GB, slow) == pytest.approx(12_000, rel=0.01)
    fast = made((1 * GB, 100), (10 * GB, 190))
    assert expected(20 * GB, fast) == pytest.approx(290, rel=0.03)
    assert expected(5 * GB, fast) == pytest.approx(140, rel=0.03)


def test_a_change_faster_than_the_known_rates_has_no_fixed_part_below_zero() -> None:
    fast = made((10 * GB, 60))
    assert [expected(size * GB, fast) for size in (10, 5, 0)] == pytest.approx([60, 30, 0])


def test_a_change_of_an_earlier_release_has_no_size_of_its_state() -> None:
    earlier = tuple(replace(one, state_bytes=0) for one in made((GB, 400), (3 * GB, 900)))
    assert expected(5 * GB, earlier) == expected(5 * GB, made((GB, 400), (3 * GB, 900)))


changes_made = st.lists(
    st.tuples(st.integers(0, 10**13), st.floats(-10, 10**6)),
    min_size=1,
    max_size=8,
)


@given(st.just([]) | changes_made, st.integers(0, 10**13), st.integers(0, 10**13))
def test_a_pause_is_never_negative_and_never_shorter_for_a_larger_state(
    measured: list[tuple[float, float]], one: int, other: int
) -> None:
    less, more = (expected(size, made(*measured)) for size in sorted((one, other)))
    assert 0 <= less <= more


@given(changes_made)
def test_a_state_as_large_as_the_last_is_expected_to_take_what_that_took(
    measured: list[tuple[float, float]],
) -> None:
    size, pause = measured[-1]
    assert expected(size, made(*measured)) == pytest.approx(max(0.0, pause), rel=1e-9, abs=1e-6)
