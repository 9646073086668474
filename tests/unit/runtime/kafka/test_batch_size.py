"""Batches have as many records as they can process in the target duration."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadMaxRows

from stateward.runtime.checkpoint.batch_plan import plan_from_json
from stateward.runtime.kafka import source
from stateward.runtime.kafka.batch_size import BatchSize
from stateward.runtime.kafka.planner import Scan
from stateward.runtime.kafka.source import Decoder, KafkaReader

MOST = 200_000


@dataclass
class Machine:
    """Batches last a fixed time, and a time for each record."""

    fixed_s: float
    record_s: float
    now_s: float = 100.0

    def monotonic(self) -> float:
        """The time."""
        return self.now_s

    def took(self, records: int) -> float:
        """The time that a batch takes."""
        return self.fixed_s + records * self.record_s

    def backlog(self, size: BatchSize, batches: int) -> list[int]:
        """Run batches as large as they may be."""
        sizes = []
        for _ in range(batches):
            sizes.append(size.limited(MOST))
            self.run(size, sizes[-1])
        return sizes

    def run(self, size: BatchSize, records: int) -> None:
        """Run one batch."""
        size.planned(records)
        self.now_s += self.took(records)


def test_a_batch_that_takes_longer_makes_the_next_ones_smaller_until_they_last_as_long_as_they_should() -> (
    None
):
    machine = Machine(0.4, 70e-6)
    sizes = machine.backlog(BatchSize(2, machine.monotonic), 6)
    assert sizes[:3] == [MOST, MOST, MOST // 2], "at most by half at once"
    assert 2 <= machine.took(sizes[-1]) <= 3


def test_the_first_batch_of_a_start_may_take_any_time() -> None:
    machine = Machine(9, 8e-6)
    size = BatchSize(2, machine.monotonic)
    machine.backlog(size, 1)
    machine.fixed_s = 0.3
    assert machine.backlog(size, 3) == [MOST] * 3


def test_batches_within_the_target_are_not_limited() -> None:
    machine = Machine(0.3, 8e-6)
    assert machine.backlog(BatchSize(2, machine.monotonic), 10) == [MOST] * 10


def test_batches_that_last_a_little_longer_are_not_limited() -> None:
    machine = Machine(0.3, 13e-6)
    assert machine.backlog(BatchSize(2, machine.monotonic), 10) == [MOST] * 10


def test_without_a_target_no_batch_is_limited() -> None:
    machine = Machine(1, 1)
    assert machine.backlog(BatchSize(0, machine.monotonic), 3) == [MOST] * 3


def test_batches_grow_again_when_records_become_cheaper() -> None:
    machine = Machine(0.4, 70e-6)
    size = BatchSize(2, machine.monotonic)
    machine.backlog(size, 6)
    machine.record_s = 5e-6
    sizes = machine.backlog(size, 6)
    assert sizes[-1] == MOST
    assert all(after <= 2 * before + 1 for before, after in pairwise(sizes))


def test_a_few_records_that_take_long_say_nothing_of_many() -> None:
    machine = Machine(0.3, 8e-6)
    size = BatchSize(2, machine.monotonic)
    machine.backlog(size, 2)
    machine.fixed_s = 60
    size.limited(MOST)
    machine.run(size, 10)
    assert size.limited(MOST) == MOST


def test_a_time_in_which_nothing_is_planned_belongs_to_no_batch() -> None:
    machine = Machine(0.3, 8e-6)
    size = BatchSize(2, machine.monotonic)
    machine.backlog(size, 1)
    assert size.limited(MOST) == MOST
    machine.now_s += 3600
    assert size.limited(MOST) == MOST


@given(
    st.floats(0.01, 30), st.floats(1e-6, 1e-3), st.floats(0.5, 20), st.lists(st.integers(0, MOST), max_size=5)
)
def test_a_backlog_is_read_in_batches_of_the_target_of_which_a_third_at_most_is_fixed(
    fixed_s: float, record_s: float, target_s: float, before: list[int]
) -> None:
    machine = Machine(fixed_s, record_s)
    size = BatchSize(target_s, machine.monotonic)
    # The first says nothing. Without the second it does not know how long a batch lasts by itself.
    for records in (0, 0, *before):
        machine.run(size, min(records, size.limited(MOST)))
    took = [machine.took(records) for records in machine.backlog(size, 100)[20:]]
    aim_s = max(target_s, 3 * fixed_s)
    assert max(took) <= aim_s * 1.5 * 1.05
    assert max(took) >= min(aim_s * 0.95, machine.took(MOST))
    assert sum(took) / len(took) >= 0.7 * min(aim_s, machine.took(MOST))


def test_the_source_plans_batches_of_that_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(0.4, 70e-6)

    class Cluster:
        """Two million records wait."""

        def begin_offsets(self, topic: str, count: int) -> dict[int, int]:
            return {0: 0}

        def end_offsets(self, topic: str, count: int) -> dict[int, int]:
            return {0: 2_000_000}

        def describe(self, topics: Any) -> dict[str, tuple[str, int]]:
            return {"t": ("id", 1)}

    def sized(target_s: float) -> BatchSize:
        return BatchSize(target_s, machine.monotonic)

    def read(begin: dict[str, Any], end: dict[str, Any]) -> int:
        return plan_from_json(end).offsets["t"][0] - plan_from_json(begin).offsets["t"][0]

    monkeypatch.setattr(source, "BatchSize", sized)
    monkeypatch.setattr(source, "cluster_at", lambda bootstrap: Cluster())
    scan = Scan("b:1", {"t": 1}, None, False, MOST, 2, f"file://{tmp_path}")
    made = KafkaReader(scan, cast(Decoder, None))
    plans = [made.initialOffset()]
    for _ in range(6):
        plans.append(made.latestOffset(plans[-1], ReadMaxRows(MOST)))
        machine.now_s += machine.took(read(plans[-2], plans[-1]))
    sizes = [read(begin, end) for begin, end in pairwise(plans)]
    assert sizes[:3] == [MOST, MOST, MOST // 2]
    assert 2 <= machine.took(sizes[-1]) <= 3
