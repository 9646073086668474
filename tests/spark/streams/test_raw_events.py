"""Two topics landed on a real broker: every record once and byte for byte, through a kill -9."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from stateward.runtime.api.record_fields import TICK_KEY
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.offsets import Range
from stateward.runtime.kafka.reader import read
from tests.support.full import ci_full
from tests.support.kafka import foreign_producer
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import RAW_EVENTS, Launch
from tests.support.spark.running_query import running
from tests.support.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TOPICS = ("landed-one", "landed-two")
PARTITIONS = 3
PART = 3000
ODD: tuple[tuple[bytes | None, bytes | None], ...] = (
    (None, None),
    (b"", b""),
    (b"\xff\x00", b"\xfe" * 70_000),
    (TICK_KEY.encode(), b'{"tick": "2024-03-01T00:00:00Z"}'),
)


@pytest.fixture
def launch(tmp_path: Path, broker: RunningBroker) -> Iterator[Launch]:
    made = Launch(tmp_path, broker, TOPICS[0], stream=RAW_EVENTS)
    yield made
    made.kill_all()


def send(launch: Launch, first: int) -> None:
    """So many records to each topic, odd ones among them, and one with headers."""
    for topic in TOPICS:
        numbered = [(f"k{n % 50}".encode(), f'{{"n": {n}}}'.encode()) for n in range(first, first + PART)]
        replace(launch, topic=topic, drivers=[]).send([*ODD, *numbered])
    producer = Producer({"bootstrap.servers": launch.broker.bootstrap})
    producer.produce(TOPICS[1], value=b"v", partition=1, headers=[("trace", b"\xff"), ("empty", None)])
    assert producer.flush(30) == 0


def in_kafka(launch: Launch) -> list[tuple[Any, ...]]:
    """Every record of the topics, as the broker has it."""
    from stateward.runtime.kafka.broker import Broker

    found = []
    for topic in TOPICS:
        ends = Broker(launch.broker.bootstrap).end_offsets(topic, PARTITIONS)
        for messages in read(launch.broker.bootstrap, [Range(topic, p, 0, end) for p, end in ends.items()]):
            for message in messages:
                place = (message.topic(), message.partition(), message.offset(), message.timestamp()[1])
                headers: Any = message.headers() or []
                found.append((*place, message.key(), message.value(), headers))
    return sorted(found, key=lambda record: record[:3])


def in_table(launch: Launch) -> list[tuple[Any, ...]]:
    found = []
    for row in launch.rows("raw_events"):
        moment = row["record_timestamp"]
        at_ms = int(moment.timestamp()) * 1000 + moment.microsecond // 1000
        assert row["date"] == moment.date()
        headers = list(zip(row["header_names"] or [], row["header_values"] or [], strict=True))
        found.append(
            (row["topic"], row["partition"], row["offset"], at_ms, row["key"], row["value"], headers)
        )
    return sorted(found, key=lambda record: record[:3])


@ci_full
def test_killed_in_mid_run_every_record_is_there_once(launch: Launch) -> None:
    for topic in TOPICS:
        launch.broker.create_topic(topic, PARTITIONS)
    send(launch, 0)
    settings: dict[str, Any] = {
        "topics": list(TOPICS),
        "max_records_per_batch": 400,
        "tick": {"mode": "off", "interval_ms": 1000},
        "state_partitions": 1,
    }
    first = launch.start("run-1", **settings)
    wait_until(
        lambda: (launch.status().get("batch_id") or 0) >= 2,
        PATIENCE_S,
        lambda: f"several batches: {launch.status()} {launch.log('run-1').read_text()[-2000:]}",
    )
    status = launch.status()
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert 0 < status["delivered"] == status["accepted"] == status["rows_out"]
    assert status["delivered"] < 2 * PART, "it was killed after everything was done, which shows nothing"

    send(launch, PART)
    total = len(in_kafka(launch))
    assert total == 4 * PART + 4 * len(ODD) + 2
    second = launch.start("run-2", **settings)
    status = launch.wait_for(
        "everything is landed", 180, run_id="run-2", delivered=total, accepted=total, lag_records=0
    )
    assert (status["dead"], status["late"], status["duplicates"], status["rows_out"]) == (0, 0, 0, total)
    assert status["caught_up"]
    second.send_signal(signal.SIGTERM)
    assert second.wait(PATIENCE_S) == 0

    assert in_table(launch) == in_kafka(launch)
    assert sum(row["accepted"] for row in launch.rows("batch_counts")) == total
    checkpoint = Checkpoint(launch.checkpoint)
    assert checkpoint.is_clean()
    planned = checkpoint.planned(checkpoint.last_committed())
    assert planned is not None
    assert set(planned.offsets) == set(TOPICS), "a landing stream has no tick topic"


def test_a_topic_that_is_added_is_landed_from_its_begin(launch: Launch, spark: SparkSession) -> None:
    added = [launch.broker.create_topic(f"added-{number}", PARTITIONS) for number in range(2)]
    first, second = (replace(launch, topic=topic, drivers=[]) for topic in added)
    first.send([(b"k", b"one")])
    second.send([(b"k", b"two")])
    with running(launch, spark, "run-1", topics=added[:1]) as query:
        query.settle()
        assert query.counted()["delivered"] == 1
        query.drain()
    with running(launch, spark, "run-2", topics=added) as query:
        query.settle()
        assert {name: query.counted()[name] for name in ("delivered", "accepted")} == {
            "delivered": 2,
            "accepted": 2,
        }
        query.drain()
    assert [(row["topic"], row["value"]) for row in sorted(launch.rows("raw_events"), key=str)] == [
        (added[0], b"one"),
        (added[1], b"two"),
    ]


def test_metadata_that_makes_no_sense_is_landed_too(launch: Launch, spark: SparkSession) -> None:
    topic, bootstrap = "landed-odd-metadata", launch.broker.bootstrap
    # As brokers before 4.0 take it: a producer may stamp its records as it likes.
    settings = {"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": str((1 << 63) - 1)}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=settings)])[topic].result(30)
    stamps = [1_700_000_000_000_000, 1_700_000_000_123_456_789, 1_700_000_000_000]
    for at_ms in stamps:
        foreign_producer.send(bootstrap, topic, b"stamped", timestamp_ms=at_ms)
    headers = [(b"trace", b"1"), (b"\xff\xfe", b"2"), (b"last", b"3")]
    foreign_producer.send(bootstrap, topic, b"named", headers=headers)

    with running(launch, spark, "run-1", topics=[topic]) as query:
        query.settle()
        query.drain()

    rows = sorted(launch.rows("raw_events"), key=lambda row: row["offset"])
    assert [row["value"] for row in rows] == [b"stamped"] * 3 + [b"named"]
    assert [row["record_timestamp_ms"] for row in rows] == [*stamps[:2], None, None]
    assert [row["date"].isoformat() for row in rows[:3]] == ["9999-12-31", "9999-12-31", "2023-11-14"]
    assert rows[3]["header_names"] == ["trace", "\ufffd", "last"]
    assert rows[3]["header_values"] == [b"1", b"2", b"3"]
    by_spark = spark.read.format("delta").load(launch.uri("tables", "raw_events"))
    assert by_spark.where("date = '9999-12-31'").count() == 2
