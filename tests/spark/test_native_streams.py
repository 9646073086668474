"""Streams on Spark's own operators, on a real broker: the oracle's rows, every record accounted for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.runtime import session as spark_session
from spark_jobs.runtime.native_query import NATIVE_CONF
from tests.kafka_broker import RunningBroker
from tests.spark.launches import JARS, Launch
from tests.spark.native import LATENESS_MS, NATIVES, Native, Sent, send
from tests.spark.oracle import difference, found_rows, of_tables
from tests.spark.running import COUNTS, Running, running
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUIET = timedelta(days=1)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STATEWARD_JARS", str(JARS))
        patch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
        # All of them, so that a row that was dropped in any batch is seen.
        progress = {"spark.sql.streaming.numRecentProgressUpdates": "1000"}
        conf = {**spark_session.checkpoint_conf("file:"), **NATIVE_CONF, **progress}
        made = spark_session.create_session("tests-native", 2, conf)
        yield made
        made.stop()


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("native", NATIVES, ids=lambda native: native.stream.name)
def test_the_tables_are_the_oracles_answer_and_the_state_empties(
    native: Native, seed: int, tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    launch = Launch(tmp_path, broker, f"native-{native.stream.name}-{seed}", stream=native.stream)
    sent = send(native, seed, keys=20, events_per_key=10)
    broker.create_topic(launch.topic, launch.partitions)
    broker.create_topic(launch.document()["tick_topic"], 1)
    third = len(sent.records) // 3
    settings = {"allowed_lateness_ms": LATENESS_MS, "max_records_per_batch": 60}
    with running(launch, spark, **settings) as query:
        launch.send(sent.records[:third])
        query.settle()
        # A few at a time, so that some come between the questions that Spark asks the branches of a batch.
        for begin in range(third, 2 * third, 5):
            launch.send(sent.records[begin : min(begin + 5, 2 * third)])
        query.settle()
        dropped = _dropped(query)
    with running(launch, spark, "run-2", **settings) as query:
        launch.send(sent.records[2 * third :])
        query.settle()
        query.tick(sent.last + QUIET)
        wait_until(lambda: query.state_rows() == 0, 60, lambda: f"no state is left: {query.state_rows()}")
        counted = query.counted()
        dropped += _dropped(query)

    check(launch, native, sent, counted)
    assert dropped == 0


def check(launch: Launch, native: Native, sent: Sent, counted: dict[str, Any]) -> None:
    """Counts and tables are those of the records."""
    assert {name: counted[name] for name in COUNTS} == {
        "accepted": len(sent.events),
        "dead": sent.dead,
        "late": 0,
        "duplicates": sent.duplicates,
    }
    expected = of_tables(launch, native.oracle(sent.events, launch.stream.logic))
    assert all(expected.values()), f"a table without a row shows nothing: {expected}"
    assert difference(found_rows(launch), expected) == {}


def _dropped(query: Running) -> int:
    """Rows that Spark has dropped as late since the query began."""
    progresses: Any = query.query.recentProgress
    return sum(
        operator["numRowsDroppedByWatermark"]
        for progress in progresses
        for operator in progress["stateOperators"]
    )
