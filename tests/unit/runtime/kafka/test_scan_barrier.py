"""All scans of a batch end where the first one decides."""

from __future__ import annotations

import random
from itertools import count
from pathlib import Path

import pytest

from stateward.runtime.kafka.scan_barrier import ScanBarrier, new_barrier_file


def test_in_each_round_one_decides_whatever_the_order(tmp_path: Path) -> None:
    rng, decisions, file = random.Random(1), count(), new_barrier_file(str(tmp_path))
    scans = [ScanBarrier(file) for _ in range(5)]
    for number in range(20):
        rng.shuffle(scans)
        assert [scan.end(lambda: {"t": {"0": next(decisions)}}) for scan in scans] == [
            {"t": {"0": number}}
        ] * 5


def test_a_decision_that_fails_leaves_the_round_to_be_decided(tmp_path: Path) -> None:
    one, other = (ScanBarrier(f"{tmp_path}/round") for _ in range(2))
    one.end(lambda: {"end": 1})
    other.end(lambda: {"end": 2})

    def fail() -> dict[str, int]:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        one.end(fail)
    assert (other.end(lambda: {"end": 3}), one.end(lambda: {"end": 4})) == ({"end": 3}, {"end": 3})


def test_each_start_of_a_query_has_its_own_rounds(tmp_path: Path) -> None:
    folder = str(tmp_path / "cache")
    first = new_barrier_file(folder)
    ScanBarrier(first).end(lambda: {"end": 1})
    assert ScanBarrier(new_barrier_file(folder)).end(lambda: {"end": 2}) == {"end": 2}
    assert not Path(first).exists()
