"""Kafka loses unread records: the stream refuses to continue, and continues after `skip`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.offsets import Range
from stateward.runtime.kafka import reader
from stateward.runtime.kafka.broker import Broker
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch
from tests.support.spark.running_query import COUNTS, running
from tests.support.state.operations import new_launch, operate
from tests.support.streams.catalogue import Record
from tests.support.streams.oracle import difference, expected_rows, found_rows
from tests.support.streams.payments import QUIET, payments
from tests.support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PARTITION = 0


def end_of(launch: Launch) -> int:
    return Broker(launch.broker.bootstrap).end_offsets(launch.topic, launch.partitions)[PARTITION]


def lose(launch: Launch, begin: int, end: int) -> list[Record]:
    """Delete a partition's records, as Kafka's retention does; returns those that were not read."""
    wanted = [Range(launch.topic, PARTITION, begin, end)]
    lost = [
        (message.key(), message.value())
        for messages in reader.read(launch.broker.bootstrap, wanted)
        for message in messages
    ]
    admin = AdminClient({"bootstrap.servers": launch.broker.bootstrap})
    for done in admin.delete_records([TopicPartition(launch.topic, PARTITION, end)]).values():
        done.result(timeout=PATIENCE_S)
    return lost


def event_ids(records: list[Record]) -> set[str]:
    found = set()
    for _, value in records:
        try:
            found.add(str(json.loads(value or b"{}")["event_id"]))
        except (ValueError, KeyError):
            continue  # not an event
    return found


@ci_full
def test_a_stream_continues_after_lost_records_with_its_state_and_counts(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    from pyspark.errors import StreamingQueryException

    sent = payments(seed=17, accounts=90)
    third = len(sent.records) // 3
    launch = new_launch(tmp_path, broker, "skipping")
    with running(launch, spark, "run-1", checkpoint_uri=launch.checkpoint) as query:
        launch.send(sent.records[:third])
        query.settle()
        query.drain()
        assert query.state_rows()
    begin = end_of(launch)
    launch.send(sent.records[third : 2 * third])
    lost = lose(launch, begin, end_of(launch))
    assert lost

    with running(launch, spark, "run-2", checkpoint_uri=launch.checkpoint) as query:
        with pytest.raises(StreamingQueryException, match=r"no longer in Kafka.*stateward state skip"):
            query.settle()
        assert not query.checkpoint.is_clean(), "the planned batch can never run"

    would = operate(launch, "skip", dry_run=True)
    done = operate(launch, "skip")
    assert would.data["lost"] == done.data["lost"] == len(lost)
    assert Checkpoint(launch.checkpoint).is_clean()
    assert operate(launch, "skip").data["changed"] is False

    with running(launch, spark, "run-3", checkpoint_uri=launch.checkpoint) as query:
        launch.send(sent.records[2 * third :])
        query.settle()
        query.tick(sent.last + QUIET)
        counted = query.counted()
        assert query.state_rows() == 0
    # A copy of a lost event may have arrived elsewhere.
    read = list(sent.records)
    for record in lost:
        read.remove(record)
    events = [(account, event) for account, event in sent.events if event.event_id in event_ids(read)]
    assert len(events) < len(sent.events)
    assert difference(found_rows(launch), expected_rows(launch, events)) == {}
    assert sum(counted[name] for name in COUNTS) == counted["delivered"] == len(read)
    batches = [row["batch_id"] for row in launch.rows("batch_counts")]
    assert len(batches) == len(set(batches))
