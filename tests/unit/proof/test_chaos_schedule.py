"""What the chaos run kills, and when, is decided by its seed."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from proof.chaos.schedule import pick, plan_faults
from tests.support.full import ci_full

# It is about what the software is tested with.
pytestmark = ci_full

WEIGHTS = {"driver": 3.0, "broker": 1.0, "never": 0.0}


def test_a_seed_decides_and_another_one_decides_otherwise() -> None:
    planned = plan_faults(1, 600, 30, WEIGHTS)
    assert planned == plan_faults(1, 600, 30, WEIGHTS)
    assert planned != plan_faults(2, 600, 30, WEIGHTS)


def test_a_longer_run_begins_as_a_shorter_one_does() -> None:
    short, long = plan_faults(1, 600, 30, WEIGHTS), plan_faults(1, 7200, 30, WEIGHTS)
    assert long[: len(short)] == short
    assert all(fault.at_s < 600 for fault in short)


def test_faults_come_one_after_the_other_as_often_as_asked_for() -> None:
    planned = plan_faults(7, 300_000, 30, WEIGHTS)
    times = [fault.at_s for fault in planned]
    assert times == sorted(times)
    assert len(planned) == pytest.approx(10_000, rel=0.05)
    # Independent of each other: as many gaps below the mean as an exponential distribution has.
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert sum(gap < 30 for gap in gaps) / len(gaps) == pytest.approx(0.632, abs=0.03)
    kinds = Counter(fault.kind for fault in planned)
    assert kinds["driver"] / len(planned) == pytest.approx(0.75, abs=0.03)
    assert kinds["never"] == 0


@pytest.mark.parametrize(("mean", "weights"), [(0.0, WEIGHTS), (30.0, {}), (30.0, {"never": 0.0})])
def test_what_cannot_be_drawn_is_refused(mean: float, weights: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected a mean gap above 0 s"):
        plan_faults(1, 600, mean, weights)


def test_every_victim_can_be_picked() -> None:
    assert [pick("abc", dice) for dice in (0.0, 0.34, 0.99999)] == ["a", "b", "c"]
