"""Spark's offline repartition of the state between runs, in place, seen from the workers' copies of it.

`test_state_repartition` has the verb, on every kind of state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from spark_jobs.user_sessions.model import SessionEvent
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.keyed.copy_folders import copy_folder
from stateward.runtime.keyed.state_cache import StateCache
from tests.support.full import only_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import USER_SESSIONS, Launch, real_events
from tests.support.spark.running_query import COUNTS, running
from tests.support.streams.oracle import Rows, difference, expected_rows, found_rows
from tests.support.streams.payments import QUIET
from tests.support.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PARTITIONS = (2, 5, 3)

Copies = dict[tuple[int, int], str]  # by partition and bucket


class Input(NamedTuple):
    """The records, their events, and the expected rows."""

    records: list[Any]
    counts: dict[str, int]
    last: datetime
    rows: Callable[[Launch], dict[str, Rows]]


def page_views() -> Input:
    records = real_events()
    fields = [json.loads(value) for _, value in records]
    times = [datetime.fromisoformat(view["event_time"]) for view in fields]
    events = [
        (view["user_id"], SessionEvent(view["event_id"], int(at.timestamp() * 1000), view["event_type"]))
        for view, at in zip(fields, times, strict=True)
    ]
    counts = {"accepted": len(events), "dead": 0, "late": 0, "duplicates": 0}
    return Input(records, counts, max(times), lambda launch: expected_rows(launch, events))


@only_full
def test_repartitioned_twice_the_answer_is_exact(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    """Within one session, so that Python workers live on with their copies of the states open.

    After a repartition a copy is of other buckets, or of older ones, than its partition has now.
    """
    launch = Launch(tmp_path, broker, "repartition", partitions=2, stream=USER_SESSIONS)
    broker.create_topic(launch.topic, launch.partitions)
    copies = [stamps(launch) for _ in runs(launch, spark, page_views())]
    assert came_back(*copies), "no copy was outdated, so the test shows nothing"


def runs(launch: Launch, spark: SparkSession, sent: Input, **changes: Any) -> Iterator[int]:
    """A third of the input, 2 to 5 partitions, another third, 5 to 3, the rest; yields after each."""
    third = len(sent.records) // 3
    parts = (sent.records[:third], sent.records[third : 2 * third], sent.records[2 * third :])
    for partitions, part in zip(PARTITIONS, parts, strict=True):
        if part is not parts[0]:
            repartition(spark, launch, partitions)
        launch.send(part)
        with running(launch, spark, f"run-{partitions}", state_partitions=partitions, **changes) as query:
            query.settle()
            if part is parts[-1]:
                query.tick(sent.last + QUIET)
                wait_until(
                    lambda: query.state_rows() == 0, PATIENCE_S, lambda: f"left: {query.query.lastProgress}"
                )
            else:
                assert query.state_rows() > 0, "the state is empty, so the test shows nothing"
            query.drain()
            counted = query.counted()
        assert sum(counted[name] for name in COUNTS) == counted["delivered"]
        yield partitions

    assert counted["delivered"] == len(sent.records)
    assert {name: counted[name] for name in COUNTS} == sent.counts
    expected = sent.rows(launch)
    assert all(expected.values()), f"a table without a row shows nothing: {expected}"
    assert difference(found_rows(launch), expected) == {}


def repartition(spark: SparkSession, launch: Launch, partitions: int) -> None:
    """Spark's own, which is private in 4.2."""
    uri = launch.uri("checkpoint")
    checkpoint = Checkpoint(uri)
    batch = checkpoint.last_committed()
    spark._streamingCheckpointManager.repartition(uri, partitions)
    assert checkpoint.is_clean()
    assert checkpoint.last_committed() == batch + 1
    metadata = (launch.folder / "checkpoint" / "offsets" / str(batch + 1)).read_text().splitlines()[1]
    assert json.loads(metadata)["conf"]["spark.sql.shuffle.partitions"] == str(partitions)


def stamps(launch: Launch) -> Copies:
    """The stamp of every bucket's copy in every partition's folder."""
    found = {}
    for partition in range(max(PARTITIONS)):
        root, checkpoint = str(launch.folder / "cache"), launch.uri("checkpoint")
        if (copy_folder(root, checkpoint) / f"p{partition}").exists():
            copy = StateCache(root, checkpoint, partition)
            known = {(partition, n): copy.bucket(n).chunks.stamp for n in range(launch.buckets)}
            copy.abort()
            found.update({place: stamp for place, stamp in known.items() if stamp})
    return found


def came_back(first: Copies, second: Copies, third: Copies) -> set[tuple[int, int]]:
    """Copies of buckets that were elsewhere during the second run, and came back in the third."""
    return {
        (partition, bucket)
        for (partition, bucket), stamp in first.items()
        if second.get((partition, bucket)) == stamp  # so it was not written here in the second run,
        and any(  # but in another partition,
            place[1] == bucket and stamp != first.get(place) for place, stamp in second.items()
        )
        and third.get((partition, bucket)) != stamp  # and here again in the third
    }
