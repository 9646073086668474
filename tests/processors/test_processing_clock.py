"""``clock: processing``: an event gets the time of its batch and is folded on arrival; the clock ticks."""

from __future__ import annotations

import json
import marshal
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Message
from msgspec import structs

from spark_jobs.user_sessions.declaration import JOB
from spark_jobs.user_sessions.model import SessionEvent
from stateward.runtime.api.config import parse_config
from stateward.runtime.api.record_fields import Bounds
from stateward.runtime.checkpoint.batch_plan import Plan
from stateward.runtime.checkpoint.checkpoint import PlannedBatch
from stateward.runtime.ingest.packed_format import LANE_TIMES
from stateward.runtime.ingest.record_decoder import DecoderTask, RecordDecoder
from stateward.runtime.kafka.tick import TickRule, View, next_plan
from stateward.runtime.watermark.due_times import DueTimes
from stateward.runtime.watermark.topic_partitions import Topics
from stateward.testing.cases import LATENESS
from tests.processors.test_buckets import GAP, Bench
from tests.unit.runtime.telemetry.test_documents import CONFIG

NOW = 1_800_000_000_000
PLACE = 4  # in a packed record, after its key


def packed(batch: PlannedBatch, *event_times: str, on_arrival: bool = True) -> list[dict[str, Any]]:
    """The packed rows of records with these times, in one bucket."""
    config = structs.replace(parse_config(CONFIG, "test"), logic={"gap_ms": GAP, "max_gap_ms": GAP})
    packer = RecordDecoder(
        owner=JOB.owner,
        fields=JOB.fields(config),
        bounds=Bounds(0, 3_600_000, 1000),
        event=JOB.event,
        buckets=1,
        topics=Topics(("t",)),
        checkpoint_uri="",
        on_arrival=on_arrival,
    )
    load = DecoderTask(packer, batch)
    fields = {"user_id": "u", "event_type": "view"}
    found = [{**fields, "event_id": f"e{number}", "event_time": at} for number, at in enumerate(event_times)]
    load.take(
        [
            Message(offset=number, key=b"k", value=json.dumps(one).encode(), timestamp=(1, NOW))
            for number, one in enumerate(found)
        ]
    )
    return [row for found in load.rows() for row in found.to_pylist() if row["lane"] != LANE_TIMES]


def events_of(row: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [record[1 + PLACE :] for record in marshal.loads(row["payload"])]


def batch(planned_ms: int, watermark_ms: int) -> PlannedBatch:
    return PlannedBatch(7, {}, watermark_ms, planned_ms)


def test_the_time_of_an_event_is_when_its_batch_was_planned() -> None:
    (row,) = packed(batch(NOW, NOW - 5), "2020-01-01T00:00:00Z", "2019-01-01T00:00:00Z")

    assert [event[:2] for event in events_of(row)] == [("e0", NOW), ("e1", NOW)]
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

    assert events_of(row)[0][1] == 1_577_836_800_000


@pytest.fixture
def bench() -> Bench:
    return Bench(None, eager=True, as_they_come=True)


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


PROCESSING = TickRule("processing", interval_ms=5000, due_ms=1000, delay_ms=0)


class Planned:
    """Plans of a stream in processing time, one after the other."""

    def __init__(self, rule: TickRule = PROCESSING, tick_ms: int = NOW - 1000) -> None:
        self.now_ms, self.timers = NOW, tuple[int, ...]()
        self.waiting = 0
        self._rule, self._plan = rule, Plan({}, tick_ms=tick_ms)

    def look(self, after_ms: int = 0) -> list[int]:
        """Plan after some time; returns the resulting tick."""
        self.now_ms += after_ms
        view = View({0: 5}, {0: 5 + self.waiting}, due=DueTimes(self.timers, known=True))
        self._plan = next_plan(self._rule, self._plan, view, self.now_ms)
        assert self._plan.tick_ms is not None
        return [self._plan.tick_ms] if self._plan.ticks else []


def test_a_tick_is_sent_when_an_alarm_is_due() -> None:
    planned = Planned()
    planned.look()
    planned.timers = (NOW + 10_000,)

    assert planned.look(9_999) == []
    assert planned.look(1) == [NOW + 10_000]


def test_records_that_wait_change_nothing() -> None:
    planned = Planned()
    planned.waiting = 500
    planned.look()
    assert planned.look(30_000) == [], "nothing is due"
    planned.timers = (NOW + 40_000,)
    assert planned.look(10_000) == [NOW + 40_000]


def test_a_tick_that_is_on_its_way_is_not_sent_again() -> None:
    planned = Planned()
    planned.look()
    planned.timers = (NOW + 10_000, NOW + 13_000)
    assert planned.look(10_500) == [NOW + 10_500]
    # No batch has processed it yet, so the first alarm is unchanged.
    assert planned.look(2000) == []
    assert planned.look(500) == [NOW + 13_000]


def test_without_an_alarm_the_clock_ticks_once_a_minute() -> None:
    planned = Planned()
    assert planned.look() == [NOW]
    assert planned.look(59_999) == []
    assert planned.look(1) == [NOW + 60_000]


def test_a_clock_that_is_behind_does_not_tick_until_it_has_caught_up() -> None:
    planned = Planned(tick_ms=NOW + 5000)
    assert planned.look() == []
    assert planned.look(5001) == [NOW + 5001]


def test_with_ticks_off_nothing_ticks() -> None:
    assert Planned(replace(PROCESSING, mode="off")).look(120_000) == []
