"""Decodes Kafka records of a `LandingJob` into rows of its table, one row per record.

There is no shuffle and no stateful operator: each task reads its ranges, packs the rows (`output_rows`) and
counts every record as accepted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from stateward.runtime.api.tables import Table
from stateward.runtime.ingest.packed_format import OUTPUT_DDL
from stateward.runtime.kafka.planner import Scan
from stateward.runtime.kafka.source import source_for
from stateward.runtime.sink.output_rows import KIND_COUNTS, OUTPUT_SCHEMA, PIECE_BYTES, rows_of
from stateward.runtime.sink.row_files import RowFiles, TaskRows

if TYPE_CHECKING:
    from confluent_kafka import Message
    from pyspark.sql import DataFrame, SparkSession

    from stateward.runtime.api.config import Config
    from stateward.runtime.api.landing_job import LandingJob


def read_landed(
    spark: SparkSession, config: Config, job: LandingJob, partitions: Mapping[str, int], files: RowFiles
) -> DataFrame:
    """Read the records of the data topics as packed rows of the job's table.

    Args:
        spark: The session.
        config: The launch.
        job: The stream.
        partitions: The data topics, and how many partitions each has.
        files: Which rows the tasks write themselves.

    Returns:
        Rows of `packed_format.OUTPUT_DDL`.
    """
    scan = Scan(
        bootstrap=config.bootstrap_servers,
        topics=partitions,
        time=None,
        from_latest=config.starting_offsets == "latest",
        most_records=config.max_records_per_batch,
        target_batch_s=config.target_batch_s,
        checkpoint_uri=config.checkpoint_uri,
        forgotten_uri=config.forgotten_uri,
    )
    source = source_for(scan, LandingDecoder(job.output.table, job.row, files))
    spark.dataSource.register(source)
    return spark.readStream.format(source.name()).load()


@dataclass(frozen=True)
class LandingDecoder:
    """Creates the decoding tasks of a landing job.

    Attributes:
        table: The table of the rows.
        row: Builds the row of a record.
        files: Which rows the tasks write themselves; None: none.
    """

    table: Table
    row: Callable[[Message], tuple[Any, ...]]
    files: RowFiles | None = None

    ddl: ClassVar[str] = OUTPUT_DDL

    def load(self) -> LandingTask:
        """Create the decoder of one task."""
        return LandingTask(self)


class LandingTask:
    """The rows that one task has packed so far."""

    def __init__(self, decoder: LandingDecoder) -> None:
        self._decoder = decoder
        self._rows: list[tuple[Any, ...]] = []
        self._bytes = 0
        self._left_out = 0
        self._parts: list[tuple[str, int, bytes]] = []
        self._landed = 0
        self._task = TaskRows(decoder.files)

    def take(self, messages: Sequence[Message]) -> None:
        """Build the rows of records of a data topic."""
        row = self._decoder.row
        for message in messages:
            self._rows.append(row(message))
            self._bytes += len(message)
            if self._bytes >= PIECE_BYTES:
                self._pack()

    def leave_out(self, messages: Sequence[Message]) -> None:
        """Count records of forgotten keys, which are not landed."""
        self._left_out += len(messages)

    def begin(self, topic: str, partitions: Sequence[int]) -> None:
        """Do nothing: partitions do not matter here."""

    def tick(self, tick_ms: int) -> None:
        """Never called: the stream has no ticks.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("a landing stream has no ticks")

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The packed rows, each in its own batch, and their count."""
        self._pack()
        self._task.close()
        if read := self._landed + self._left_out:
            counts = {"accepted": self._landed, "records": read}
            if self._left_out:
                counts["others"] = self._left_out
            self._parts.append((KIND_COUNTS, 1, json.dumps(counts).encode()))
        for part in self._parts:
            columns = zip(part, OUTPUT_SCHEMA, strict=True)
            arrays = [pa.array([value], field.type) for value, field in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=OUTPUT_SCHEMA)

    def _pack(self) -> None:
        if self._rows:
            table = self._decoder.table
            self._parts += self._task.parts(table, rows_of(table, self._rows))
            self._landed += len(self._rows)
            self._rows, self._bytes = [], 0
