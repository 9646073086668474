"""The cost of a micro-batch for Spark and Delta, counted and not timed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch
from tests.support.spark.running_query import Running, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START = datetime(2024, 3, 1, tzinfo=UTC)
BUCKETS = 8
PARTITIONS = 3
EVENTS, USERS = 6000, 500


def test_rows_round_trips_and_commits_do_not_grow_with_the_events(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    launch = Launch(tmp_path, broker, "counted-work", partitions=PARTITIONS, buckets=BUCKETS)
    broker.create_topic(launch.topic, PARTITIONS)
    with running(launch, spark) as query:
        query.settle()
        before, counted = _versions(launch), len(launch.rows("batch_counts"))
        launch.send((f"u{n % USERS}".encode(), json.dumps(_event(n)).encode()) for n in range(EVENTS))
        query.query.processAllAvailable()
        batch = _largest_batch(query)
        (operator,) = batch["stateOperators"]

        assert query.counted()["accepted"] == EVENTS
        # One Spark row per bucket, partition and task, whatever the number of events.
        assert batch["numInputRows"] <= BUCKETS * PARTITIONS
        # Per bucket a chunk, a head and a timer, and the timer's entry in Spark's index by time.
        assert operator["numRowsUpdated"] <= 4 * BUCKETS
        assert operator["numRowsTotal"] <= 2 * BUCKETS
        # The events may have arrived in several batches: one row and one commit each.
        batches = len(launch.rows("batch_counts")) - counted
        assert batches >= 1
        assert _versions(launch) == before | {"batch_counts": before["batch_counts"] + batches}, (
            "nothing is committed for no rows"
        )


def _versions(launch: Launch) -> dict[str, int]:
    return {table: DeltaTable(launch.uri("tables", table)).version() for table in launch.table_names}


def _event(number: int) -> dict[str, Any]:
    at = START + timedelta(milliseconds=number)
    return {
        "event_id": f"e{number}",
        "user_id": f"u{number % USERS}",
        "event_type": "x",
        "event_time": at.isoformat(),
    }


def _largest_batch(query: Running) -> Any:
    return max(query.query.recentProgress, key=lambda progress: progress["numInputRows"])
