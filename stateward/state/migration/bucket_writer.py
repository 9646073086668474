"""Writes whole buckets of states into a checkpoint, with one micro-batch of Spark.

Spark has no API to write the state of a query from outside. So a batch of a query with the stream's state
variables reads the states from files and stores them in the buckets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Row
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from stateward.contract.storage import filesystem_at
from stateward.runtime.ingest.packed_format import LANE_EVENT, OUTPUT_DDL
from stateward.runtime.keyed.state_log import Head, StateLog, decode_chunk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
    )
    from pyspark.sql.types import StructType

STAGED_DDL = "bucket int, entries binary, keys int, timer_ms bigint"
"""A part of a bucket: a chunk of its log, its number of keys, and the earliest of their timers. A null in
``entries`` empties the bucket."""

_SOURCE = "stateward-staged-states"
# Spark plans a batch only if the offset of the source grows.
_ROUND = "stateward-staged"
_PARTS_AT_ONCE = 16
_STAGED = "_states"


class BucketWriter(StatefulProcessor):
    """Replaces the states of buckets.

    Args:
        state_version: Version of the states.
    """

    def __init__(self, state_version: int) -> None:
        self._state_version = state_version

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by the engine once per task."""
        self._log = StateLog(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        """Called by the engine with all parts of a bucket."""
        before = self._log.head()
        for seq in range(before.first_seq, before.next_seq):
            self._log.remove(seq)
        head = Head(first_seq=before.next_seq, next_seq=before.next_seq, schema_version=self._state_version)
        live, timer_ms = 0, None
        for row in rows:
            if row["entries"] is None:
                continue
            self._log.append(head, decode_chunk(row["entries"]))
            head = _after(head)
            live += row["keys"]
            timer_ms = row["timer_ms"] if timer_ms is None else min(timer_ms, row["timer_ms"])
        if timer_ms != before.timer_ms:
            self._log.set_timer(before.timer_ms, timer_ms)
        self._log.write_head(
            Head("", head.first_seq, head.next_seq, live, live, timer_ms, self._state_version)
        )
        return iter(())

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        """Called by the engine if a timer fired, which this batch's watermark prevents."""
        raise RuntimeError(
            f"bucket {key[1]}: expected no timer to fire while states are written, found one at "
            f"{expiredTimerInfo.getExpiryTimeInMs()}; report this"
        )


def _after(head: Head) -> Head:
    return Head(first_seq=head.first_seq, next_seq=head.next_seq + 1, schema_version=head.schema_version)


@dataclass
class _File(InputPartition):
    """One staged file."""

    uri: str


class StagedReader(DataSourceStreamReader):
    """Reads all staged files in one batch.

    Args:
        files: Their URIs.
        begin: The start offset of the batch.
    """

    def __init__(self, files: tuple[str, ...], begin: dict[str, Any]) -> None:
        self._files = files
        self._begin = begin

    def initialOffset(self) -> dict[str, Any]:
        """The start offset in a new checkpoint."""
        return self._begin

    def latestOffset(self, *arguments: Any) -> dict[str, Any]:
        """The end offset of the batch; the stream's own offsets replace it later."""
        return {**self._begin, _ROUND: {"0": 1}}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[_File]:
        """A task for each file."""
        return [_File(uri) for uri in self._files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The parts of buckets in one file."""
        assert isinstance(partition, _File)
        filesystem, path = filesystem_at(partition.uri)
        with filesystem.open(path, "rb") as file:
            for parts in pq.ParquetFile(file).iter_batches(batch_size=_PARTS_AT_ONCE):
                lanes = pa.repeat(pa.scalar(LANE_EVENT), parts.num_rows)
                times = pa.nulls(parts.num_rows, pa.timestamp("us", tz="UTC"))
                names = ["lane", "tick_ts", *parts.schema.names]
                yield pa.RecordBatch.from_arrays([lanes, times, *parts.columns], names=names)


def write_buckets(
    spark: SparkSession,
    staged_uri: str,
    checkpoint_uri: str,
    *,
    begin: dict[str, Any],
    state_version: int,
    name: str,
) -> None:
    """Run one batch on a checkpoint that writes the staged states into their buckets.

    Args:
        spark: A session, with the checkpoint's format.
        staged_uri: Folder from `stage`.
        checkpoint_uri: The checkpoint; the folder of a new one is empty.
        begin: The source's end offset in the last batch, or its start offset.
        state_version: Version of the states.
        name: Name of the query.
    """
    spark.dataSource.register(_source(staged_files(staged_uri), begin))
    query = (
        spark.readStream.format(_SOURCE)
        .load()
        # The stream's own operators. No row has a time, so the watermark does not move.
        .withWatermark("tick_ts", "0 seconds")
        .drop("tick_ts")
        .groupBy("lane", "bucket")
        .transformWithState(BucketWriter(state_version), OUTPUT_DDL, "append", "eventTime")
        .writeStream.foreachBatch(_run)
        .queryName(name)
        .option("checkpointLocation", checkpoint_uri)
        .trigger(once=True)
        .start()
    )
    query.awaitTermination()


def _source(files: tuple[str, ...], begin: dict[str, Any]) -> type[DataSource]:
    class Staged(DataSource):
        @classmethod
        def name(cls) -> str:
            return _SOURCE

        def schema(self) -> str:
            return f"lane string, tick_ts timestamp, {STAGED_DDL}"

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            return StagedReader(files, begin)

    return Staged


def _run(batch: DataFrame, batch_id: int) -> None:
    # There are no rows; collecting them runs the batch.
    batch.collect()


def stage(parts: DataFrame, target_uri: str) -> str:
    """Write parts of buckets (`STAGED_DDL`) to files for `write_buckets`.

    Args:
        parts: The parts.
        target_uri: The target checkpoint.

    Returns:
        The folder with the files, inside the checkpoint; remove it after `write_buckets`.
    """
    staged_uri = f"{target_uri}/{_STAGED}"
    columns = parts.select("bucket", "entries", "keys", "timer_ms")
    columns.write.mode("overwrite").option("compression", "zstd").parquet(staged_uri)
    return staged_uri


def staged_files(staged_uri: str) -> tuple[str, ...]:
    """The Parquet files in a folder, sorted."""
    filesystem, path = filesystem_at(staged_uri)
    return tuple(sorted(filesystem.unstrip_protocol(file) for file in filesystem.glob(f"{path}/*.parquet")))
