"""Streams on Spark's own operators, on a real broker: the oracle's rows, every record accounted for."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.full import ci_full, only_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch
from tests.support.spark.running_query import COUNTS, Running, running
from tests.support.state.moves import configured
from tests.support.streams.native import LATENESS_MS, NATIVES, Native, one, send
from tests.support.streams.oracle import Rows, difference, found_rows, of_tables
from tests.support.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUIET = timedelta(days=1)
SETTINGS: dict[str, Any] = {"allowed_lateness_ms": LATENESS_MS, "max_records_per_batch": 60}


@pytest.fixture(autouse=True)
def every_progress(spark: SparkSession) -> Iterator[None]:
    """Spark keeps all of them, so that a row that was dropped in any batch is seen."""
    with configured(spark, {"spark.sql.streaming.numRecentProgressUpdates": "1000"}):
        yield


def _marks(number: int, seed: int) -> tuple[pytest.MarkDecorator, ...]:
    """One stream in `make test`, each of them once in CI."""
    if (number, seed) == (0, 1):
        return ()
    return (ci_full if seed == 1 else only_full,)


@pytest.mark.parametrize(
    ("native", "seed"),
    [
        pytest.param(native, seed, marks=_marks(number, seed), id=f"{native.stream.name}-{seed}")
        for number, native in enumerate(NATIVES)
        for seed in (1, 2)
    ],
)
def test_the_tables_are_the_oracles_answer_and_the_state_empties(
    native: Native, seed: int, tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    launch = Launch(tmp_path, broker, f"native-{native.stream.name}-{seed}", stream=native.stream)
    sent = send(native, seed, keys=20, events_per_key=10)
    broker.create_topic(launch.topic, launch.partitions)
    third = len(sent.records) // 3
    with running(launch, spark, **SETTINGS) as query:
        launch.send(sent.records[:third])
        query.settle()
        # A few at a time, so that some come between the questions that Spark asks the branches of a batch.
        for begin in range(third, 2 * third, 5):
            launch.send(sent.records[begin : min(begin + 5, 2 * third)])
        query.settle()
        dropped = _dropped(query)
    with running(launch, spark, "run-2", **SETTINGS) as query:
        launch.send(sent.records[2 * third :])
        query.settle()
        watermark_ms = max(event.event_ms for event in sent.events) - LATENESS_MS
        wait_until(
            lambda: _watermark_ms(query) == watermark_ms, PATIENCE_S, lambda: f"W: {_watermark_ms(query)}"
        )
        on_time, event = one(native, "on-time", watermark_ms)
        late, _ = one(native, "late", watermark_ms - 1)
        launch.send([on_time, late])
        query.query.processAllAvailable()
        query.tick(sent.last + QUIET)
        wait_until(
            lambda: query.state_rows() == 0, PATIENCE_S, lambda: f"state is left: {query.query.lastProgress}"
        )
        counted = query.counted()
        dropped += _dropped(query)

    assert {name: counted[name] for name in COUNTS} == {
        "accepted": len(sent.events) + 1,
        "dead": sent.dead,
        "late": 1,
        "duplicates": sent.duplicates,
    }
    assert [row["event_id"] for row in launch.rows("late_events")] == ["late"]
    assert difference(found_rows(launch), _expected(launch, native, [*sent.events, event])) == {}
    assert dropped == 0


@ci_full
@pytest.mark.parametrize(
    "native",
    [
        pytest.param(native, marks=only_full if number else (), id=native.stream.name)
        for number, native in enumerate(NATIVES)
    ],
)
def test_killed_in_mid_run_the_answer_is_the_same(
    native: Native, tmp_path: Path, broker: RunningBroker
) -> None:
    launch = Launch(tmp_path, broker, f"killed-{native.stream.name}", stream=native.stream)
    sent = send(native, seed=7, keys=20, events_per_key=10)
    expected = _expected(launch, native, sent.events)
    broker.create_topic(launch.topic, launch.partitions)
    half = len(sent.records) // 2
    launch.send(sent.records[:half])
    try:
        first = launch.start("run-1", **SETTINGS)
        wait_until(lambda: launch.status().get("delivered"), 300, lambda: f"a batch: {launch.status()}")
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        launch.send(sent.records[half:])
        launch.end_replay((sent.last + QUIET).isoformat())
        second = launch.start("run-2", **SETTINGS)
        all_rows = sum(map(len, expected.values()))
        status = launch.wait_for(
            "all rows", 300, delivered=len(sent.records), rows_out=all_rows, state_rows=0
        )
        second.send_signal(signal.SIGTERM)
        assert second.wait(PATIENCE_S) == 0
    finally:
        launch.kill_all()

    assert [status[name] for name in COUNTS] == [len(sent.events), sent.dead, 0, sent.duplicates]
    assert difference(found_rows(launch), expected) == {}


def _expected(launch: Launch, native: Native, events: list[Any]) -> dict[str, Rows]:
    expected = of_tables(launch, native.oracle(events, launch.stream.logic))
    assert all(expected.values()), f"a table without a row shows nothing: {expected}"
    return expected


def _watermark_ms(query: Running) -> int:
    """The watermark of the last committed batch."""
    planned = query.checkpoint.planned(query.checkpoint.last_committed())
    return planned.watermark_ms if planned else 0


def _dropped(query: Running) -> int:
    """Rows that Spark has dropped as late since the query began."""
    progresses: Any = query.query.recentProgress
    return sum(
        operator["numRowsDroppedByWatermark"]
        for progress in progresses
        for operator in progress["stateOperators"]
    )
