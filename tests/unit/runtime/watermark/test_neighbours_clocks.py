"""No clock of a producer or driver makes an event with a correct time late (a property of whole runs)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from confluent_kafka import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from stateward.runtime.checkpoint.batch_plan import Plan, plan_from_json
from stateward.runtime.kafka.tick import TickRule, View, next_plan
from stateward.runtime.watermark.partition_times import Times, TimeTracker, merge_times, times_from_json
from stateward.runtime.watermark.topic_partitions import Topics

START = 1_800_000_000_000
LATENESS = 60_000
MAX_AHEAD = 3_600_000
APPEND_TIME, CREATE_TIME = 2, 1
RULE = TickRule("auto", 1000, 1000, LATENESS)
# The errors of producers' clocks; an event a year ahead is a dead letter, if it is recognised as such.
CLOCKS = {"right": 0, "10 s ahead": 10_000, "59 min ahead": 59 * 60_000, "a year ahead": 365 * 86_400_000}


@dataclass(frozen=True)
class Record:
    """A record: its arrival, its event time, and whether the producer's clock is correct."""

    arrived_ms: int
    event_ms: int | None
    stamp_ms: int
    is_right: bool


@dataclass
class Life:
    """A stream, its topic, and its late events.

    Attributes:
        stamps: Whether the broker stamps records.
        log: Records by partition.
    """

    stamps: int
    log: dict[int, list[Record]] = field(default_factory=dict)
    now_ms: int = START
    late: list[Record] = field(default_factory=list)
    watermark_ms: int = 0
    plan: Plan = field(default_factory=lambda: Plan({}))
    times: Times = field(default_factory=Times)
    begin: dict[int, int] = field(default_factory=dict)

    def send(self, partition: int, clock: str, delay_ms: int) -> None:
        right_ms = self.now_ms - delay_ms
        event_ms = None if clock == "garbage" else right_ms + CLOCKS[clock]
        stamp_ms = self.now_ms if self.stamps == APPEND_TIME else (event_ms or 0)
        record = Record(self.now_ms, event_ms, stamp_ms, clock == "right")
        self.log.setdefault(partition, []).append(record)

    def run(self, most: int) -> None:
        """Plan and run a batch, as driver, planner and tasks do."""
        ends: dict[Any, int] = {p: len(records) for p, records in self.log.items()}
        begin: dict[Any, int] = {p: self.begin.get(p, 0) for p in ends}
        unread = frozenset(p for p, offset in begin.items() if not offset)
        view = View(begin, ends, unread, self.times)
        self.plan = plan_from_json(next_plan(RULE, self.plan, view, self.now_ms).to_json())
        until = {p: min(end, begin[p] + most) for p, end in ends.items()}
        parts = [self._task(p, begin[p], until[p]) for p in ends if until[p] > begin[p]]
        if parts:
            self.times = times_from_json(merge_times(parts).to_json())
        self.begin = until
        if self.plan.ticks and self.plan.tick_ms is not None:
            assert self.plan.tick_ms <= self.now_ms, "no tick is later than the broker's time"
            self.watermark_ms = max(self.watermark_ms, self.plan.tick_ms - LATENESS)

    def _task(self, partition: int, begin: int, end: int) -> Times:
        watch = TimeTracker(self.now_ms, 0, Topics(("t",)))
        watch.read(0, [partition])
        for record in self.log[partition][begin:end]:
            watch.records([Message(partition=partition, timestamp=(self.stamps, record.stamp_ms))])
            if record.event_ms is None or record.event_ms > self.now_ms + MAX_AHEAD:
                continue
            if record.event_ms < self.watermark_ms:
                self.late.append(record)
            watch.event(partition, record.event_ms, record.stamp_ms)
        return watch.times()

    def restart(self) -> None:
        """Another driver continues from the checkpoint and the counts."""
        self.plan = plan_from_json(self.plan.to_json())
        self.times = times_from_json(self.times.to_json())


step = st.one_of(
    st.tuples(
        st.just("send"),
        st.integers(0, 3),
        st.sampled_from(["right", "right", *CLOCKS]),
        st.integers(0, LATENESS),
    ),
    st.tuples(st.just("pass"), st.sampled_from([1, 400, 5000, 70_000, 3 * 3_600_000])),
    st.tuples(st.just("run"), st.sampled_from([1, 3, 1000])),
    st.tuples(st.just("restart")),
)


def lived(life: Life, steps: Sequence[tuple[Any, ...]], garbage: bool) -> Life:
    for kind, *values in steps:
        if kind == "send":
            partition, clock, delay_ms = values
            # The last partition may contain only garbage.
            is_garbage = garbage and partition == 3
            life.send(partition, "garbage" if is_garbage else clock, delay_ms)
        elif kind == "pass":
            life.now_ms += values[0]
        elif kind == "run":
            life.run(values[0])
        else:
            life.restart()
    return life


@settings(max_examples=400, deadline=None)
@given(st.lists(step, max_size=40), st.booleans())
def test_no_event_of_a_right_clock_is_late_because_of_anyone_else(
    steps: list[tuple[Any, ...]], garbage: bool
) -> None:
    """With the broker's timestamps, for any downtime of the driver and any batch sizes."""
    life = lived(Life(APPEND_TIME), steps, garbage)
    while any(life.begin.get(p, 0) < len(records) for p, records in life.log.items()):
        life.run(2)
    assert [record for record in life.late if record.is_right] == []


@pytest.mark.parametrize(
    "before",
    [
        pytest.param([("send", 0, "10 s ahead", 0)], id="a partition with an event that is ahead"),
        pytest.param([("send", 0, "a year ahead", 0)], id="a partition with a dead letter"),
        pytest.param(
            [("send", 0, "right", 0), ("send", 0, "59 min ahead", 0)],
            id="one that is ahead among others",
        ),
        pytest.param(
            [("send", 0, "a year ahead", 0), ("send", 1, "right", 0)], id="another partition that goes on"
        ),
    ],
)
def test_what_waits_in_a_partition_is_not_late_after_the_driver_was_away(
    before: list[tuple[Any, ...]],
) -> None:
    """The timestamps of records already read are a lower bound for those that wait."""
    life = lived(Life(APPEND_TIME), [*before, ("run", 1000)], garbage=False)
    life.now_ms += 1
    for _ in range(3):
        life.send(0, "right", LATENESS - 1)
    life.now_ms += 2 * MAX_AHEAD
    life.send(1, "right", 0)
    while any(life.begin.get(p, 0) < len(records) for p, records in life.log.items()):
        life.run(1)
    assert [record for record in life.late if record.is_right] == []


@settings(max_examples=400, deadline=None)
@given(st.lists(step.filter(lambda one: one[0] in ("send", "restart")), max_size=40), st.booleans())
def test_nor_with_stamps_of_the_producers_as_long_as_the_driver_keeps_up(
    steps: list[tuple[Any, ...]], garbage: bool
) -> None:
    life = Life(CREATE_TIME)
    for one in steps:
        life.now_ms += 1000
        lived(life, [one, ("run", 1000)], garbage)
    assert [record for record in life.late if record.is_right] == []


@settings(max_examples=200, deadline=None)
@given(
    st.lists(step, max_size=30), st.sampled_from([APPEND_TIME, CREATE_TIME]), st.sampled_from([True, False])
)
def test_the_watermark_moves_as_long_as_time_passes(
    steps: list[tuple[Any, ...]], stamps: int, flow: bool
) -> None:
    """Also while garbage keeps arriving, and nothing else."""
    life = lived(Life(stamps), steps, garbage=True)
    life.send(0, "right", 0)
    life.run(10_000)
    for _ in range(3):
        life.now_ms += 2 * MAX_AHEAD
        if flow:
            life.send(3, "garbage", 0)
        life.run(10_000)
    assert life.watermark_ms >= life.now_ms - 2 * MAX_AHEAD - LATENESS


def test_an_unread_partition_that_was_added_holds_the_others_back() -> None:
    life = Life(APPEND_TIME)
    life.send(0, "right", 0)
    life.run(10)
    life.now_ms += 10_000
    life.run(10)
    before_ms = life.watermark_ms
    assert before_ms > 0
    life.send(7, "right", LATENESS)
    life.now_ms += 1000
    life.run(10)
    assert life.watermark_ms == before_ms, "no tick while nothing of it is read"
    life.now_ms += 1000
    life.run(10)
    assert life.watermark_ms > before_ms
    assert life.late == []
    assert replace(life.plan, ticks=False).silent == frozenset()
