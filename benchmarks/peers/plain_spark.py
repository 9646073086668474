"""Plain Spark: its Kafka connector and its own operators, written as Spark's documentation does.

Variants: `session_window` (default, all in the JVM), `transform_with_state` (a `StatefulProcessor` called per
key) and `apply_in_pandas` (`applyInPandasWithState`, called per key).

Durability: state in RocksDB and its changelog, a checkpoint per batch; the file sink is exactly once. Spark
has one watermark for all partitions, so the delay also covers how far they are apart within a batch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.peers.runs import Run, add, take_closed
from benchmarks.peers.task import Task

ROWS = "user_id string, started_ms long, ended_ms long, event_count long"
RUN = "started_ms long, ended_ms long, event_count long"
RECORDS_PER_BATCH = 100_000
PARTITIONS_APART_MS = 10_000


class Sessions(StatefulProcessor):
    """The open sessions of a user, as a list; a timer at the end of the earliest."""

    def __init__(self, gap_ms: int) -> None:
        self._gap_ms = gap_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._handle = handle
        self._open = handle.getListState("open", RUN)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Add a user's events."""
        runs: list[Run] = [list(run) for run in self._open.get()]
        for row in rows:
            add(runs, row["time_ms"], self._gap_ms)
        self._store(runs)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """Close the sessions that the watermark has passed."""
        runs: list[Run] = [list(run) for run in self._open.get()]
        closed = take_closed(runs, timerValues.getCurrentWatermarkInMs(), self._gap_ms)
        self._store(runs)
        for started, ended, count in closed:
            yield Row(user_id=key[0], started_ms=started, ended_ms=ended, event_count=count)

    def _store(self, runs: list[Run]) -> None:
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        if runs:
            self._open.put([tuple(run) for run in runs])
            self._handle.registerTimer(min(run[1] for run in runs) + self._gap_ms)
        else:
            self._open.clear()


def main() -> None:
    """Run the query to the end of the topic."""
    task = Task.from_arguments()
    spark = _session(task)
    query = (
        _sessions(_events(spark, task), task)
        # Not by the user: Spark would drop the last records below the watermark, which they have to move.
        .where(F.col("ended_ms") < task.end_ms)
        .writeStream.format("json")
        .option("path", str(task.output))
        .option("checkpointLocation", str(Path(task.folder) / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    task.finish(time.time())


def _session(task: Task) -> SparkSession:
    return (
        SparkSession.builder.master(f"local[{task.parallelism}]")
        .config("spark.jars", ",".join(task.jars))
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", task.parallelism)
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )


def _events(spark: SparkSession, task: Task) -> DataFrame:
    value = F.from_json(F.col("value").cast("string"), "user_id string, event_time timestamp")
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", task.bootstrap_servers)
        .option("subscribe", task.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", RECORDS_PER_BATCH)
        .load()
        .select(value.alias("event"))
        .select("event.user_id", "event.event_time")
        .withWatermark("event_time", f"{_delay_ms(task)} milliseconds")
    )


def _delay_ms(task: Task) -> int:
    return task.lateness_ms + PARTITIONS_APART_MS


def _sessions(events: DataFrame, task: Task) -> DataFrame:
    if task.variant in ("", "session_window"):
        return _by_window(events, task)
    timed = events.withColumn("time_ms", F.unix_millis("event_time"))
    if task.variant == "transform_with_state":
        return timed.groupBy("user_id").transformWithState(
            Sessions(task.gap_ms), ROWS, outputMode="Append", timeMode="EventTime"
        )
    if task.variant == "apply_in_pandas":
        return timed.groupBy("user_id").applyInPandasWithState(
            _in_pandas(task.gap_ms),
            ROWS,
            "open string",
            "append",
            GroupStateTimeout.EventTimeTimeout,
        )
    raise ValueError(
        f"variant: expected session_window, transform_with_state or apply_in_pandas, found {task.variant!r}"
    )


def _by_window(events: DataFrame, task: Task) -> DataFrame:
    # Spark joins events that are exactly the gap apart; here they are in two sessions.
    window = F.session_window("event_time", f"{task.gap_ms * 1000 - 1} microseconds")
    return (
        events.groupBy("user_id", window)
        .agg(
            F.min("event_time").alias("started"),
            F.max("event_time").alias("ended"),
            F.count("*").alias("event_count"),
        )
        .select(
            "user_id",
            F.unix_millis("started").alias("started_ms"),
            F.unix_millis("ended").alias("ended_ms"),
            "event_count",
        )
    )


def _in_pandas(gap_ms: int) -> Any:
    def of_user(key: tuple[str], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        runs: list[Run] = json.loads(state.get[0]) if state.exists else []
        if not state.hasTimedOut:
            for frame in frames:
                for time_ms in frame["time_ms"]:
                    add(runs, int(time_ms), gap_ms)
        # Also of a key that has events: Spark refuses a timeout before the watermark.
        closed = take_closed(runs, state.getCurrentWatermarkMs(), gap_ms)
        if runs:
            state.update((json.dumps(runs),))
            state.setTimeoutTimestamp(min(run[1] for run in runs) + gap_ms)
        else:
            state.remove()
        if closed:
            frame = pd.DataFrame(closed, columns=["started_ms", "ended_ms", "event_count"])
            frame.insert(0, "user_id", key[0])
            yield frame

    return of_user


if __name__ == "__main__":
    main()
