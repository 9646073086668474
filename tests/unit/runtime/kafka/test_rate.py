"""The made-up cluster of a trial: the same record of an offset each time, at its rate and its own time."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message
from hypothesis import given, settings
from hypothesis import strategies as st

from stateward.runtime.checkpoint.batch_plan import plan_from_json
from stateward.runtime.checkpoint.offsets import Range
from stateward.runtime.kafka.broker import Broker
from stateward.runtime.kafka.broker_clock import BrokerClock
from stateward.runtime.kafka.planner import Planner, Scan, TimeSource
from stateward.runtime.kafka.planner_handover import new_handover
from stateward.runtime.kafka.rate import Rate, RateClock, RateCluster, cluster_at, rate_at
from stateward.runtime.kafka.reader import read
from stateward.runtime.kafka.tick import TickRule
from stateward.runtime.watermark.partition_times import Times

BEGAN_MS = 1_767_225_600_000
RATE = Rate(
    per_second=10,
    speed=60,
    began_ms=BEGAN_MS,
    key="user_id",
    keys=3,
    values={"kind": ("a", "b"), "extra": (None, 1)},
    delay_ms=2000,
)


def document(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(message.value() or b"")
    return found


def test_an_address_has_everything_and_a_real_one_is_a_real_cluster() -> None:
    assert rate_at(RATE.address) == RATE
    assert rate_at("localhost:9092") is None
    assert type(cluster_at("localhost:9092")) is Broker
    assert type(cluster_at(RATE.address)) is RateCluster


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000), st.integers(1, 1100))
def test_a_range_has_the_same_records_however_it_is_read(begin: int, size: int) -> None:
    whole = [one for part in read(RATE.address, [Range("t", 0, begin, begin + size)]) for one in part]
    assert [one.offset() for one in whole] == list(range(begin, begin + size))
    alone = RATE.record("t", begin + size - 1)
    assert (alone.key(), alone.value(), alone.timestamp()) == (
        whole[-1].key(),
        whole[-1].value(),
        whole[-1].timestamp(),
    )


def test_a_record_is_an_event_of_the_stream_at_most_the_delay_old() -> None:
    found = [RATE.record("t", offset) for offset in range(500)]
    documents = [document(one) for one in found]
    assert [one["event_id"] for one in documents[:2]] == ["e0", "e1"]
    assert {one["user_id"] for one in documents} == {"user_id-0", "user_id-1", "user_id-2"}
    assert {one["kind"] for one in documents} == {"a", "b"}
    assert {one.get("extra", "none") for one in documents} == {1, "none"}
    for number, (message, one) in enumerate(zip(found, documents, strict=True)):
        kind, at_ms = message.timestamp()
        assert kind == TIMESTAMP_LOG_APPEND_TIME
        assert at_ms == BEGAN_MS + (number + 1) * 6000
        event_ms = int(datetime.fromisoformat(one["event_time"]).timestamp() * 1000)
        assert 0 <= at_ms - event_ms <= 2000
    assert len({one["event_time"] for one in documents}) > 400


@pytest.mark.parametrize(("after_ms", "end", "of_five"), [(0, 0, 0), (99, 0, 0), (100, 1, 1), (7000, 70, 5)])
def test_records_come_at_the_rate_and_none_before_its_time(after_ms: int, end: int, of_five: int) -> None:
    wall_ms = BEGAN_MS + after_ms
    cluster = RateCluster(RATE, lambda: wall_ms)
    assert cluster.end_offsets("t", 1) == {0: end}
    assert cluster.begin_offsets("t", 1) == {0: 0}
    now_ms = RateClock().now_ms(cluster)
    assert now_ms == BEGAN_MS + after_ms * 60
    for offset in range(end):
        assert RATE.record("t", offset).timestamp()[1] <= now_ms
    few = Rate(**{name: getattr(RATE, name) for name in RATE.__struct_fields__} | {"records": 5})
    assert RateCluster(few, lambda: wall_ms).end_offsets("t", 1) == {0: of_five}


def test_batches_are_planned_by_its_records_and_its_time(tmp_path: Path) -> None:
    wall_ms = BEGAN_MS
    handover = new_handover(tmp_path)
    handover.publish(times=Times())
    time = TimeSource(
        TickRule("auto", 5000, 1000, 60_000), cast("BrokerClock", RateClock()), str(handover.file)
    )
    scan = Scan(RATE.address, {"t": 1}, time, False, 1000, 0, f"file://{tmp_path}")
    planner = Planner(scan, RateCluster(RATE, lambda: wall_ms))
    plan = planner.first().to_json()
    wall_ms += 1000
    plan = planner.next(plan, 1000)
    assert plan_from_json(plan).offsets == {"t": {0: 10}}
    newest = RATE.record("t", 9)
    at_ms = newest.timestamp()[1]
    handover.publish(times=Times(newest={0: at_ms}, lag_ms=0, append_time=True, records=10, size=1000))
    for _ in range(2):
        # A minute of the cluster's time each.
        wall_ms += 1000
        plan = planner.next(plan, 1000)
    found = plan_from_json(plan)
    assert found.offsets == {"t": {0: 30}}
    assert found.now_ms == BEGAN_MS + 3 * 60_000
    assert found.tick_ms == at_ms, "ticks follow what was read"
