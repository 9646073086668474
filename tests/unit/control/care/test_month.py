"""A month of nightly care: the load grows eightfold and falls again, and the partitions follow."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proof.care.chart import write
from proof.care.month import DAYS, RULES, Day, Load, eightfold, noisy, simulate
from stateward.project.settings import CHECKOUT
from stateward.project.spec_state import CareLimits

# The advisor's limit, and its factor within which a number stays (`stateward.state.partitions.advice`).
MOST_BYTES, STAYS = 512 * 1024 * 1024, 2


def moves(days: list[Day]) -> list[int]:
    """The numbers of partitions, the first one and each that was moved to."""
    return [2, *(day.partitions for day in days if day.has_moved)]


@pytest.mark.parametrize("load", [eightfold, *(noisy(eightfold, seed) for seed in range(5))])
def test_the_partitions_follow_a_load_that_grows_eightfold_and_falls_again(load: Load) -> None:
    days = simulate(load, DAYS)
    up = max(range(DAYS), key=lambda day: days[day].partitions)
    numbers = moves(days)
    assert len(numbers) - 1 <= 5, numbers
    # Up while it grows, down while it falls, and never back and forth.
    assert all(
        before < after
        for before, after in pairwise(one.partitions for one in days[: up + 1])
        if before != after
    )
    assert all(before >= after for before, after in pairwise(one.partitions for one in days[up:]))
    highest, last = days[14], days[-1]
    assert highest.partitions * MOST_BYTES * STAYS >= highest.state_bytes, "eight times the load has room"
    assert last.partitions <= 4, "and a load as at first has no more than twice what it needs"
    assert all(
        (later.at - earlier.at).days >= RULES.looks
        for earlier, later in pairwise(d for d in days if d.has_moved)
    )


def test_what_only_proposes_moves_nothing() -> None:
    days = simulate(eightfold, DAYS, replace(RULES, policy="propose"))
    assert moves(days) == [2]
    assert any(day.decision.step == "propose" for day in days)


def test_with_the_default_pause_a_person_is_asked_while_the_load_is_at_its_highest() -> None:
    days = simulate(eightfold, DAYS, replace(RULES, max_pause=CareLimits().max_pause))
    asked = [day for day in days if day.decision.step == "ask"]
    assert asked and {day.load for day in asked} == {8.0}
    assert {day.decision.because for day in asked} == {"long_pause"}


@settings(deadline=None)
@example(1903, 6.25, 0.28125)
@given(st.integers(0, 10_000), st.floats(0.5, 9), st.floats(0, 0.3))
def test_a_load_that_stays_moves_nothing_back_and_forth(seed: int, level: float, noise: float) -> None:
    numbers = moves(simulate(noisy(lambda day: level, seed, noise), DAYS))
    steps = [after - before for before, after in pairwise(numbers)]
    assert len(steps) <= 3, numbers
    assert all(step > 0 for step in steps) or all(step < 0 for step in steps), numbers


def test_the_picture_is_the_simulation(tmp_path: Path) -> None:
    write(simulate(eightfold, DAYS), tmp_path / "month.svg")
    picture = CHECKOUT / "docs" / "images" / "state-care-month.svg"
    assert picture.read_text() == (tmp_path / "month.svg").read_text(), "run `python -m proof.care`"
