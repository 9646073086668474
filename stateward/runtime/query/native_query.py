"""A stream on Spark's own operators, from Kafka records to the rows of the sink.

Each table has a branch with its own scans, operators and state; a stream of several topics has a scan and a
watermark of each in every branch::

    records ─► dead letters, late events, counts ────────────────────────► rows
            ├► watermark ─► each event once ─► count accepted events ─────► counts
            └► watermark ─► each event once ─► the stream's plan ─────────► rows of a table

The reasons are in docs/decisions/0005.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from stateward.runtime.api.config import ConfigError
from stateward.runtime.api.record_fields import EVENT_TIME
from stateward.runtime.api.tables import Table
from stateward.runtime.ingest.event_rows import EventRowDecoder, column_problems
from stateward.runtime.ingest.packed_format import OUTPUT_DDL
from stateward.runtime.sink.output_rows import KIND_COUNTS, OUTPUT_SCHEMA, SchemaError, fitted
from stateward.runtime.sink.row_files import RowFiles, TaskRows
from stateward.runtime.watermark.topic_partitions import Topics

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from stateward.runtime.api.config import Config
    from stateward.runtime.api.native_job import NativeJob

NATIVE_CONF = {
    # Spark supports Avro state only for transformWithState.
    "spark.sql.streaming.stateStore.encodingFormat": "unsaferow",
    # In a batch without data the plans of the branches are equal. Spark would shuffle for one of them and
    # reuse the exchange for the others, whose operators would miss the watermark and never remove state.
    "spark.sql.exchange.reuse": "false",
}

WATERMARK_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"

# EventTimeWatermark.delayKey: marks a column that operators compare with the watermark.
_WATERMARK_KEY = "spark.watermarkDelayMs"


ReadInput = Callable[[EventRowDecoder, "str | None"], "DataFrame"]
"""From an input's decoder and its topic (None: all topics) to a scan, with the columns of the decoder."""


def native_rows(config: Config, job: NativeJob, read: ReadInput, files: RowFiles | None = None) -> DataFrame:
    """Build the stream in a session with `NATIVE_CONF`; its columns are `packed_format.OUTPUT_DDL`.

    Args:
        config: The launch.
        job: The stream.
        read: Makes the scan of an input.
        files: Which rows of the plan the tasks write themselves; None: none.

    Raises:
        ConfigError: The stream is eager, or one of its fields cannot be a column.
        SchemaError: The tables of the plan are not those that the stream declares.
    """
    if config.emission != "watermark":
        raise ConfigError(
            f"stream {config.stream}: expected emission watermark, found {config.emission}: Spark's own "
            "operators emit what the watermark has passed; correct `emission` in the stream's YAML"
        )
    scans = [
        (read(decoder, topic), decoder, lateness_ms) for decoder, topic, lateness_ms in inputs_of(config, job)
    ]
    each = [_events(found, decoder, lateness_ms) for found, decoder, lateness_ms in scans]
    names = [one.name for one in job.inputs]
    events = dict(zip(names, each, strict=True)) if names else each[0]
    tables = {output.table.name: output.table for output in job.outputs}
    planned = job.plan(events, config)
    planned |= {one.table.name: one.plan(events, config) for one in job.outputs if one.plan}
    if planned.keys() != tables.keys():
        raise SchemaError(
            f"stream {config.stream}: expected a plan for {', '.join(sorted(tables))}, found one for "
            f"{', '.join(sorted(planned)) or 'nothing'}: compare plan.py with the declaration's outputs"
        )
    branches = [_settled(found) for found, _, _ in scans]
    branches += [one.mapInArrow(_counted, OUTPUT_DDL) for one in each]
    branches += [rows.mapInArrow(_encoder(tables[name], files), OUTPUT_DDL) for name, rows in planned.items()]
    return reduce(lambda one, other: one.unionByName(other), branches)


def inputs_of(config: Config, job: NativeJob) -> Iterator[tuple[EventRowDecoder, str | None, int]]:
    """By input its decoder, the topic that its scan reads, and its allowed lateness (ms)."""
    for topic, fields in job.fields_of(config).items():
        for problem in column_problems(fields):
            raise ConfigError(f"stream {config.stream}: {problem}")
        decoder = EventRowDecoder(
            key=job.key.name,
            fields=fields,
            bounds=config.bounds,
            topics=Topics(config.topics),
            checkpoint_uri=config.checkpoint_uri,
        )
        yield decoder, topic if job.inputs else None, config.lateness_of(topic)


def _events(found: DataFrame, decoder: EventRowDecoder, lateness_ms: int) -> DataFrame:
    """The deduplicated events, with a time that operators compare with the watermark of the ticks.

    Ticks must reach the watermark operator and be removed after it. Spark pushes a filter below the watermark
    unless the filter uses the watermark's own column, so this one does.
    """
    time = F.col(EVENT_TIME.name).alias(EVENT_TIME.name, metadata={_WATERMARK_KEY: lateness_ms})
    return (
        found.filter(f"{EVENT_TIME.name} IS NOT NULL OR _tick_ts IS NOT NULL")
        .withWatermark("_tick_ts", f"{lateness_ms} milliseconds")
        .filter("_tick_ts IS NULL")
        .select(time, *(field.name for field in decoder.columns))
        .dropDuplicatesWithinWatermark([decoder.key, "event_id"])
    )


def _settled(found: DataFrame) -> DataFrame:
    """The rows that need no operator: dead letters, late events and counts."""
    return found.filter("_kind IS NOT NULL").selectExpr("_kind AS kind", "_rows AS rows", "_data AS data")


def _counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count deduplicated events as accepted; the decoder has counted each of them as a duplicate."""
    if accepted := sum(batch.num_rows for batch in batches):
        counts = json.dumps({"accepted": accepted, "duplicates": -accepted}).encode()
        yield _output(KIND_COUNTS, 1, counts)


def _encoder(
    table: Table, files: RowFiles | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def encode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskRows(files)
        for batch in batches:
            for part in task.parts(table, fitted(table, pa.Table.from_batches([batch]))):
                yield _output(*part)
        task.close()

    return encode


def _output(kind: str, rows: int, data: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"kind": kind, "rows": rows, "data": data}], schema=OUTPUT_SCHEMA)


def row_id(*columns: Column | str) -> Column:
    """The id of `key_logic.row_id` for texts and whole numbers that are not null."""
    texts = [(F.col(column) if isinstance(column, str) else column).cast("string") for column in columns]
    lengths = [F.length(text).cast("string") for text in texts]
    has_separator = reduce(lambda one, other: one | other, [text.contains("\0") for text in texts])
    whole = F.when(has_separator, F.concat_ws("\0", *lengths, *texts)).otherwise(F.concat_ws("\0", *texts))
    return F.substring(F.sha2(whole, 256), 1, 32)


def event_instant(column: Column | str) -> Column:
    """The original event time, to the millisecond; not for comparison with the watermark."""
    return F.timestamp_millis(F.unix_millis(column))
