"""A batch whose rows do not fit into the driver's memory is planned again, smaller, without loss."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.state.operation.replan import take_back_plan
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import RAW_EVENTS, USER_SESSIONS, Launch, Stream
from tests.support.spark.running_query import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

RECORDS = 400
GARBAGE = os.urandom(20_000 + RECORDS)


@pytest.fixture(scope="module")
def spark_settings() -> dict[str, str]:
    """A driver's session with a limit of four megabytes of rows instead of a gigabyte."""
    return {"spark.driver.maxResultSize": "4m"}


def value(number: int) -> bytes:
    return b"\xff" + GARBAGE[number : number + 20_000]


@ci_full
@pytest.mark.parametrize(
    ("stream", "table"),
    [
        pytest.param(USER_SESSIONS, "dead_letters", id="dead_letters"),
        pytest.param(RAW_EVENTS, "raw_events", id="raw_events"),
    ],
)
def test_a_batch_that_is_too_large_is_planned_again(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession, stream: Stream, table: str
) -> None:
    from pyspark.errors import StreamingQueryException

    launch = Launch(tmp_path, broker, f"large-{stream.name}", stream=stream)
    broker.create_topic(launch.topic, launch.partitions)
    launch.send((b"k%d" % number, value(number)) for number in range(RECORDS))
    tables = {name: launch.uri("tables", name) for name in launch.table_names}
    changes: dict[str, Any] = {"topics": [launch.topic]} if stream is RAW_EVENTS else {}

    def driver(run_id: str) -> Any:
        """The steps of a driver before its query, and the query."""
        take_back_plan(launch.checkpoint, tables, [launch.topic], RECORDS)
        return running(launch, spark, run_id, max_records_per_batch=RECORDS, **changes)

    for attempt in ("run-1", "run-2"):
        with driver(attempt) as query, pytest.raises(StreamingQueryException, match="maxResultSize"):
            query.query.processAllAvailable()
        assert Checkpoint(launch.checkpoint).last_planned() == 0
        assert Checkpoint(launch.checkpoint).last_committed() == -1
    with driver("run-3") as query:
        query.query.processAllAvailable()
        counted = query.counted()

    assert (counted["delivered"], counted["batch_id"] >= 3) == (RECORDS, True)
    rows = launch.rows(table)
    assert sorted(row["value"] for row in rows) == sorted(map(value, range(RECORDS)))
    assert len({(row["partition"], row["offset"]) for row in rows}) == RECORDS
