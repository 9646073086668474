"""``clock: processing``: an event has the time of its batch and acts on arrival; the wall clock ticks."""

from __future__ import annotations

import json
import marshal
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from spark_jobs.runtime.alarms import Alarms
from spark_jobs.runtime.broker import Broker
from spark_jobs.runtime.checkpoint import PlannedBatch
from spark_jobs.runtime.config import Config, parse_config
from spark_jobs.runtime.monitor import TopicMonitor
from spark_jobs.runtime.pack import PackedLoad, Packer
from spark_jobs.runtime.progress import Position
from spark_jobs.runtime.validation import Bounds
from spark_jobs.user_sessions.declaration import JOB
from spark_jobs.user_sessions.model import SessionEvent
from tests.processors.bucket_bench import LATENESS
from tests.processors.test_buckets import GAP, Bench
from tests.unit.test_driver_documents import CONFIG

NOW = 1_800_000_000_000
PLACE = 4  # in a packed record, after its key


class Message:
    """A record as librdkafka gives it."""

    def __init__(self, offset: int, value: bytes) -> None:
        self._offset, self._value = offset, value

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return self._value

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, NOW


def packed(batch: PlannedBatch, *event_times: str, on_arrival: bool = True) -> list[dict[str, Any]]:
    """The packed rows of records with these times, in one bucket."""
    config = cast(Config, replace(parse_config(CONFIG, "test"), logic={"gap_ms": GAP, "max_gap_ms": GAP}))
    packer = Packer(
        owner=JOB.owner,
        fields=JOB.fields(config),
        bounds=Bounds(0, 3_600_000, 1000),
        event=JOB.event,
        buckets=1,
        topic="t",
        checkpoint_uri="",
        on_arrival=on_arrival,
    )
    load = PackedLoad(packer, batch)
    fields = {"user_id": "u", "event_type": "view"}
    load.take(
        Message(number, json.dumps({**fields, "event_id": f"e{number}", "event_time": at}).encode())  # type: ignore[misc]
        for number, at in enumerate(event_times)
    )
    return [row for found in load.rows() for row in found.to_pylist()]


def events_of(row: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [record[1 + PLACE :] for record in marshal.loads(row["payload"])]


def batch(planned_ms: int, watermark_ms: int) -> PlannedBatch:
    return PlannedBatch(7, {}, watermark_ms, planned_ms)


def test_the_time_of_an_event_is_when_its_batch_was_planned() -> None:
    (row,) = packed(batch(NOW, NOW - 5), "2020-01-01T00:00:00Z", "2019-01-01T00:00:00Z")

    assert [event[:2] for event in events_of(row)] == [("e0", NOW), ("e1", NOW)]
    assert row["newest_ms"] is None, "events move no watermark"
    assert packed(batch(NOW, NOW - 5), "2020-01-01T00:00:00Z") == packed(
        batch(NOW, NOW - 5), "2020-01-01T00:00:00Z"
    )


def test_a_clock_that_was_set_back_makes_nothing_late() -> None:
    (row,) = packed(batch(NOW - 60_000, NOW), "2020-01-01T00:00:00Z")

    assert events_of(row)[0][1] == NOW


def test_event_time_is_validated_all_the_same() -> None:
    (row,) = packed(batch(NOW, 0), "2020-01-01T00:00:00")

    assert (row["lane"], row["records"]) == ("dead", 1)


def test_by_event_time_the_batch_does_not_matter() -> None:
    (row,) = packed(batch(NOW, 0), "2020-01-01T00:00:00Z", on_arrival=False)

    assert events_of(row)[0][1] == row["newest_ms"] == 1_577_836_800_000


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path, eager=True, as_they_come=True)
    yield bench
    bench.end()


def event(event_id: str, at: int, kind: str = "view", *, last: bool = False) -> tuple[str, SessionEvent]:
    return "u", SessionEvent(event_id, at, kind, last)


def test_events_act_in_the_order_of_their_arrival_and_not_of_their_ids(bench: Bench) -> None:
    bench.batch(event("c", 100, "first"), event("a", 100, "second"))
    bench.batch(event("d", 200, "third"), event("b", 200, "fourth", last=True))

    assert [(s["event_count"], s["last_event_type"]) for s in bench.sessions] == [(4, "fourth")]


def test_a_repeated_id_counts_once_within_the_allowed_lateness(bench: Bench) -> None:
    bench.batch(event("a", 100), event("a", 100))
    bench.watermark(100 + LATENESS)
    bench.batch(event("a", 100 + LATENESS))
    assert (bench.counts["accepted"], bench.counts["duplicates"]) == (1, 2)

    bench.watermark(100 + LATENESS + 1)
    bench.batch(event("a", 100 + LATENESS + 1))
    assert (bench.counts["accepted"], bench.counts["late"]) == (2, 0)


def test_a_timeout_is_that_of_the_clock_and_the_state_empties(bench: Bench) -> None:
    bench.batch(event("a", 100))
    assert bench.reported == 100 + GAP
    bench.watermark(99 + GAP)
    assert bench.sessions == []
    bench.watermark(100 + GAP)

    assert [s["close_reason"] for s in bench.sessions] == ["TIMEOUT"]
    assert bench.is_empty


class Clock:
    """The time of a test."""

    now_ms = NOW

    def __call__(self) -> datetime:
        return datetime.fromtimestamp(self.now_ms / 1000, UTC)


class Topic:
    """A broker with one partition; notes the ticks."""

    def __init__(self) -> None:
        self.end = 5
        self.ticks: list[int] = []

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        return {0: self.end}

    def last_records(self, topic: str, ends: dict[int, int]) -> dict[int, Any]:
        raise AssertionError("the records of the topic say nothing about the clock")

    def send_tick(self, topic: str, time: str) -> None:
        self.ticks.append(int(datetime.fromisoformat(time).timestamp() * 1000))


class Watch:
    """A monitor in processing time, with a query that has read up to offset 5."""

    def __init__(self, **changes: Any) -> None:
        self.clock, self.topic, self.alarms = Clock(), Topic(), Alarms(4, new=True)
        self.position = Position(3, {CONFIG["topic"]: {0: 5}}, NOW - 1000)
        self._monitor = TopicMonitor(
            config=parse_config({**CONFIG, "clock": "processing", **changes}, "test"),
            broker=cast(Broker, self.topic),
            partitions={CONFIG["topic"]: 1},
            position=lambda: self.position,
            alarms=self.alarms,
            publish=lambda **fields: None,
            clock=self.clock,
        )

    def look(self, after_ms: int = 0) -> list[int]:
        """Look at the topic after a while; the ticks sent then."""
        self.clock.now_ms += after_ms
        before = len(self.topic.ticks)
        self._monitor.look()
        return self.topic.ticks[before:]


def test_a_tick_is_sent_when_an_alarm_is_due_without_waiting_for_the_lateness() -> None:
    watch = Watch(allowed_lateness_ms=600_000)
    watch.look()
    watch.alarms.note({1: NOW + 10_000})

    assert watch.look(9_999) == []
    assert watch.look(1) == [NOW + 10_000]


def test_records_that_wait_change_nothing() -> None:
    watch = Watch()
    watch.topic.end = 500
    watch.look()
    assert watch.look(30_000) == [], "nothing is due"
    watch.alarms.note({1: NOW + 40_000})
    assert watch.look(10_000) == [NOW + 40_000]


def test_a_tick_that_is_on_its_way_is_not_sent_again() -> None:
    watch = Watch()
    watch.look()
    watch.alarms.note({1: NOW + 10_000, 2: NOW + 13_000})
    assert watch.look(10_500) == [NOW + 10_500]
    # No batch has acted on it yet, so the first alarm still stands.
    assert watch.look(2000) == []
    assert watch.look(500) == [NOW + 13_000]


def test_without_an_alarm_the_clock_ticks_once_a_minute() -> None:
    watch = Watch()
    assert watch.look() == [NOW]
    assert watch.look(59_999) == []
    assert watch.look(1) == [NOW + 60_000]


def test_a_clock_that_was_set_back_does_not_tick_until_it_has_caught_up() -> None:
    watch = Watch()
    watch.position = Position(3, {CONFIG["topic"]: {0: 5}}, NOW + 5000)
    assert watch.look() == []
    assert watch.look(5001) == [NOW + 5001]


def test_before_the_first_batch_and_with_ticks_off_nothing_ticks() -> None:
    watch = Watch()
    watch.position = Position(-1, {}, 0)
    assert watch.look() == []

    assert Watch(tick={"mode": "off", "interval_ms": 1000}).look(120_000) == []
