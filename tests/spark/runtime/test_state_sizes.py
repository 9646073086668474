"""The sizes that a running stream reports are those that `inspect` finds, and Spark's own counts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stateward.runtime.telemetry.operator_metrics import operator_measures
from stateward.runtime.telemetry.snapshot_sizes import SnapshotSizes
from stateward.state.verbs.inspect import Inspection
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import EVENT_WINDOWS, USER_SESSIONS, Launch
from tests.support.spark.running_query import Running, running
from tests.support.state.inspected import at, looked_at, prepared, record, settled, variable
from tests.support.state.moves import configured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Then each batch uploads a snapshot, and not only its changes.
SNAPSHOTS = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false"}
USERS = [f"user-{number:03}" for number in range(100)]
BUSY = USERS[7]


def measured(query: Running) -> list[dict[str, Any]]:
    """What Spark has counted of the operators in the last batch that has changed the state."""
    for progress in reversed(query.query.recentProgress):
        operators: list[dict[str, Any]] = operator_measures(progress["stateOperators"], 0)["operators"]
        if any(operator["updated"] for operator in operators):
            return operators
    raise AssertionError(f"no batch has changed the state: {query.query.recentProgress}")


def require_same(fields: dict[str, Any], found: Inspection) -> None:
    keys = variable(found, "keys")
    assert (fields["state_keys"], fields["live_bytes"]) == (found.size.keys, found.size.live_bytes)
    by_partition = {str(load.number): load.key_bytes + load.value_bytes for load in keys.partitions}
    assert fields["partition_bytes"] == {number: size for number, size in by_partition.items() if size}
    sizes = {int(number): size for number, size in fields["buckets"]["sizes"].items()}
    assert {number: size[1] for number, size in sizes.items()} == {
        load.number: load.keys for load in keys.buckets if load.keys
    }
    assert 7 / 8 * keys.largest[0].bytes < fields["largest_key_bytes"] <= keys.largest[0].bytes


def test_a_keyed_stream_reports_what_inspect_finds(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    launch: Launch = prepared(tmp_path, broker, USER_SESSIONS, buckets=8)
    with running(launch, spark) as query:
        kinds = {user: "view" * 200 if user == BUSY else "view" for user in USERS}
        launch.send(record("user_id", user, "e1", 1, event_type=kind) for user, kind in kinds.items())
        settled(query, at(2))
        ended = USERS[50:]
        launch.send(record("user_id", user, "e2", 3, event_type="view", is_last=True) for user in ended)
        settled(query, at(20))
        query.drain()
        before = query.counted()
        [operator] = measured(query)
    assert operator["name"].startswith("transformWithState")
    assert operator["rows"] > 0 and operator["updated"] > 0 and operator["memory_bytes"] > 0
    assert operator["commit_ms"] > 0 and operator["cache_hits"] is not None
    require_same(before, looked_at(spark, launch, show_keys=True, samples=0))
    assert before["state_keys"] == 50

    with running(launch, spark, "run-2") as query:
        assert query.stream.sizes is not None
        assert query.counted()["state_keys"] is None, "no bucket is known yet"
        query.stream.sizes.carry(1, before["buckets"])
        assert query.counted()["live_bytes"] == before["live_bytes"]
        launch.send([record("user_id", "new", "e1", 21, event_type="view")])
        settled(query, at(21))
        query.drain()
        after = query.counted()
    assert after["state_keys"] == 51
    require_same(after, looked_at(spark, launch, show_keys=True, samples=0))


def test_a_stream_on_sparks_operators_reports_each_of_them(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    launch = prepared(tmp_path, broker, EVENT_WINDOWS)
    sizes = SnapshotSizes(launch.uri("checkpoint"))
    with configured(spark, SNAPSHOTS), running(launch, spark) as query:
        assert sizes.read() == {}
        launch.send(record("user_id", user, "e1", 7, event_type="view", value=1) for user in USERS[:4])
        query.query.processAllAvailable()
        operators = measured(query)
        fields = query.progress.poll(query.query)
        by_partition = sizes.read()
        query.drain()
    found = looked_at(spark, launch, samples=0)
    assert sum(one["rows"] for one in operators) == found.size.keys == fields["state_keys"]
    names = [one["name"] for one in operators]
    assert sorted(names)[:3] == [f"dedupeWithinWatermark{number}" for number in ("", " 2", " 3")]
    assert sum(name.startswith("stateStoreSave") for name in names) == 2
    assert all(one["updated"] == one["rows"] and one["removed"] == 0 for one in operators)
    assert {"partition_bytes", "buckets"}.isdisjoint(fields)
    # What the partitions' snapshots list is what Spark's own counts add up to.
    assert sum(by_partition.values()) == fields["live_bytes"] > 0
    with_rows = {str(load.number) for one in found.variables for load in one.partitions if load.keys}
    assert by_partition.keys() == with_rows
