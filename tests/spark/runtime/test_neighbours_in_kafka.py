"""Foreign changes to a stream's topics: wrong clocks, garbage, added partitions, a topic created again."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from stateward.runtime.checkpoint.batch_plan import PLAN
from stateward.runtime.kafka.broker import Broker
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch
from tests.support.spark.running_query import running
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Rare enough that a query has processed everything in between.
AUTO = {"mode": "auto", "interval_ms": 60_000}
YEAR = timedelta(days=365)


@pytest.fixture
def launch(tmp_path: Path, broker: RunningBroker, request: pytest.FixtureRequest) -> Iterator[Launch]:
    yield Launch(tmp_path, broker, f"neighbours-{zlib.crc32(request.node.name.encode()):x}")


@pytest.fixture
def admin(broker: RunningBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def make(admin: AdminClient, topic: str, stamps: str, partitions: int = 3) -> None:
    # Kafka 4 rejects timestamps more than an hour ahead; earlier versions do not.
    config = {"message.timestamp.type": stamps, "message.timestamp.after.max.ms": str(2**63 - 1)}
    new = NewTopic(topic, partitions, 1, config=config)
    admin.create_topics([new])[topic].result(30)


def event(event_id: str, user: str, at: datetime) -> tuple[bytes, bytes]:
    fields = {"event_id": event_id, "user_id": user, "event_type": "view", "event_time": at.isoformat()}
    return user.encode(), json.dumps(fields).encode()


def send(launch: Launch, partition: int, records: list[tuple[bytes, bytes]], stamp: datetime) -> None:
    """Send records with the producer's timestamp."""
    producer = Producer({"bootstrap.servers": launch.broker.bootstrap})
    refused: list[Any] = []
    for key, value in records:
        producer.produce(
            launch.topic,
            value,
            key,
            partition=partition,
            timestamp=int(stamp.timestamp() * 1000),
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
    assert (producer.flush(30), refused) == (0, [])


@pytest.mark.parametrize("stamps", ["CreateTime", pytest.param("LogAppendTime", marks=ci_full)])
def test_clocks_that_are_ahead_and_foreign_ticks_make_nobody_late(
    stamps: str, launch: Launch, admin: AdminClient, spark: SparkSession
) -> None:
    make(admin, launch.topic, stamps)
    now = datetime.now(UTC)
    hour_ahead, year_ahead = now + timedelta(minutes=59), now + YEAR
    with running(launch, spark, tick=AUTO) as query:
        foreign = [b"not json", json.dumps({"tick": year_ahead.isoformat()}).encode(), b"[]", b"\xff"]
        ticks = Producer({"bootstrap.servers": launch.broker.bootstrap})
        for value in foreign:
            ticks.produce(query.config.tick_topic, value)
        assert ticks.flush(30) == 0
        send(launch, 0, [event("h", "hour", hour_ahead)], hour_ahead)
        send(launch, 1, [event("y", "year", year_ahead)], year_ahead)
        send(launch, 2, [(b"g", b"garbage")], now)
        query.settle()
        assert {name: query.counted()[name] for name in ("accepted", "dead", "late")} == {
            "accepted": 1,
            "dead": 2,
            "late": 0,
        }
        for number in range(3):
            right = datetime.now(UTC) - timedelta(seconds=100)
            send(launch, number % 3, [event(f"r{number}", "right", right)], right)
            query.settle()
        counted = query.counted()
        assert (counted["accepted"], counted["dead"], counted["late"]) == (4, 2, 0)
        watermark = datetime.fromisoformat(counted["watermark"])
        assert now - timedelta(minutes=10) < watermark <= datetime.now(UTC) - timedelta(minutes=2)


def test_partitions_that_are_added_are_read_and_counted_as_lag(
    launch: Launch, admin: AdminClient, spark: SparkSession
) -> None:
    make(admin, launch.topic, "LogAppendTime", partitions=1)
    launch.partitions = 1
    with running(launch, spark, tick=AUTO) as query:
        now = datetime.now(UTC)
        send(launch, 0, [event("a", "u", now)], now)
        query.settle()
        admin.create_partitions([NewPartitions(launch.topic, 3)])[launch.topic].result(30)
        broker = Broker(launch.broker.bootstrap)
        wait_until(lambda: broker.partitions(launch.topic) == 3, 30, lambda: "the partitions are there")
        before = datetime.now(UTC) - timedelta(seconds=30)
        send(launch, 2, [event(f"n{number}", "u", before) for number in range(5)], now)

        def is_read() -> bool:
            query.settle()
            return bool(query.counted()["accepted"] == 6)

        wait_until(is_read, 60, lambda: f"what was added is read: {query.counted()}")
        assert query.counted()["late"] == 0
        assert set(query.progress.position.offsets[launch.topic]) == {0, 1, 2}


def test_offsets_that_have_no_record_are_counted_apart(
    launch: Launch, admin: AdminClient, spark: SparkSession
) -> None:
    """Two transactions in one partition: one is committed, and one is not. Each ends with a marker."""
    make(admin, launch.topic, "CreateTime", partitions=1)
    launch.partitions = 1
    now = datetime.now(UTC)
    producer = Producer({"bootstrap.servers": launch.broker.bootstrap, "transactional.id": launch.topic})
    producer.init_transactions(30)
    with running(launch, spark, tick=AUTO) as query:
        for number, end in enumerate((producer.commit_transaction, producer.abort_transaction)):
            producer.begin_transaction()
            for key, value in (event(f"{number} {one}", "u", now) for one in range(3)):
                producer.produce(launch.topic, value, key)
            producer.flush(30)
            end(30)
        query.settle()
        counted = query.counted()
    assert (counted["delivered"], counted["accepted"], counted["without_record"]) == (3, 3, 5)


def test_a_topic_that_was_made_again_and_is_longer_stops_the_stream(
    launch: Launch, admin: AdminClient, spark: SparkSession
) -> None:
    make(admin, launch.topic, "CreateTime")
    now = datetime.now(UTC)
    with running(launch, spark, tick=AUTO) as query:
        send(launch, 0, [event("a", "u", now)], now)
        query.settle()
        query.drain()
    admin.delete_topics([launch.topic])[launch.topic].result(30)
    broker = Broker(launch.broker.bootstrap)
    wait_until(lambda: broker.partitions(launch.topic) == 0, 60, lambda: "the topic is gone")
    make(admin, launch.topic, "CreateTime")
    send(launch, 0, [event(f"b{number}", "u", now) for number in range(9)], now)
    with running(launch, spark, "run-2", tick=AUTO) as query:
        wait_until(lambda: query.query.exception() is not None, 90, lambda: "the query ends")
        assert "was created again" in str(query.query.exception())


def test_a_checkpoint_of_the_release_before_is_gone_on_from(
    launch: Launch, broker: RunningBroker, spark: SparkSession
) -> None:
    """Its plans are offsets only, including those of the ticks."""
    broker.create_topic(launch.topic, launch.partitions)
    now = datetime.now(UTC)
    with running(launch, spark, tick=AUTO) as query:
        launch.send([event("a", "u", now)])
        query.settle()
        query.drain()
        checkpoint = query.checkpoint
        last = checkpoint.last_committed()
    folder = Path(launch.checkpoint.removeprefix("file://"))
    for file in [*(folder / "offsets" / str(number) for number in range(last + 1)), folder / "sources/0/0"]:
        file.write_text("\n".join(map(_as_before, file.read_text().splitlines())))
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    with running(launch, spark, "run-2", tick=AUTO) as query:
        launch.send([event("b", "u", now), event("a", "u", now), event("old", "u", now - YEAR)])
        query.settle()
        counted = query.counted()
        assert (counted["accepted"], counted["duplicates"], counted["late"]) == (2, 1, 1)
        query.drain()


def _as_before(line: str) -> str:
    try:
        document: Any = json.loads(line)
    except ValueError:
        return line
    if "batchWatermarkMs" in document:
        return line
    document.pop(PLAN, None)
    return json.dumps({**document, "stateward-ticks-x": {"0": 0}})
