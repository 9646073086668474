"""A stream on Spark's own operators, from Kafka's records to the rows that the sink takes.

A branch for each table, with a scan, operators and state of its own::

    records ─► settled: dead letters, late events, counts ───────────────► rows
            ├► watermark ─► each event once ─► count what is let through ─► counts
            └► watermark ─► each event once ─► the stream's plan ─────────► rows of a table

docs/decisions/0005 says why it is so.
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
from stateward.runtime.ingest.event_rows import EventRows
from stateward.runtime.ingest.packed_format import OUTPUT_DDL
from stateward.runtime.query import scan
from stateward.runtime.sink.output_rows import KIND_COUNTS, OUTPUT_SCHEMA, SchemaError, encode_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from stateward.runtime.api.config import Config
    from stateward.runtime.api.native_job import NativeJob
    from stateward.runtime.kafka.planner import TimeSource

NATIVE_CONF = {
    # Only transformWithState has its state in Avro; Spark refuses it for other operators.
    "spark.sql.streaming.stateStore.encodingFormat": "unsaferow",
    # In a batch without data the branches look alike. Spark then shuffles for one of them, lets others reuse
    # that, and does not see the watermark behind it: their operators would never forget anything.
    "spark.sql.exchange.reuse": "false",
}

# EventTimeWatermark.delayKey: what makes a column one that operators compare with the watermark.
_WATERMARK_KEY = "spark.watermarkDelayMs"


def native_rows(
    spark: SparkSession, config: Config, job: NativeJob, partitions: int, time: TimeSource
) -> DataFrame:
    """The stream, as `lanes.OUTPUT_DDL`.

    Args:
        spark: The session, with `NATIVE_CONF`.
        config: The launch.
        job: The stream.
        partitions: How many partitions the data topic has.
        time: How the stream comes by the time.

    Raises:
        ConfigError: The stream is eager.
        SchemaError: The plan has rows for other tables than the stream declares.
    """
    if config.emission != "watermark":
        raise ConfigError(
            f"stream {config.stream}: expected emission watermark, found {config.emission}: Spark's own "
            "operators put out what the watermark has passed; correct `emission` in the stream's YAML"
        )
    sorter = EventRows(
        key=job.key.name,
        fields=job.fields(config),
        bounds=config.bounds,
        topic=config.topic,
        checkpoint_uri=config.checkpoint_uri,
    )
    found = scan.read(spark, config, sorter, partitions, time)
    events = _events(found, sorter, config.allowed_lateness_ms)
    tables = {output.table.name: output.table for output in job.outputs}
    planned = job.plan(events, config)
    if planned.keys() != tables.keys():
        raise SchemaError(
            f"stream {config.stream}: expected a plan for {', '.join(sorted(tables))}, found one for "
            f"{', '.join(sorted(planned)) or 'nothing'}: compare plan.py with the declaration's outputs"
        )
    branches = [_settled(found), events.mapInArrow(_counted, OUTPUT_DDL)]
    branches += [rows.mapInArrow(_encoder(tables[name]), OUTPUT_DDL) for name, rows in planned.items()]
    return reduce(lambda one, other: one.unionByName(other), branches)


def _events(found: DataFrame, sorter: EventRows, lateness_ms: int) -> DataFrame:
    """The events, each once, with a time that operators compare with the watermark of the ticks.

    Ticks have to be there when the watermark is taken, and gone after it. Spark moves a filter to before the
    watermark unless it is about the watermark's own column, so this one is.
    """
    time = F.col(EVENT_TIME.name).alias(EVENT_TIME.name, metadata={_WATERMARK_KEY: lateness_ms})
    return (
        found.filter(f"{EVENT_TIME.name} IS NOT NULL OR _tick_ts IS NOT NULL")
        .withWatermark("_tick_ts", f"{lateness_ms} milliseconds")
        .filter("_tick_ts IS NULL")
        .select(time, *(field.name for field in sorter.columns))
        .dropDuplicatesWithinWatermark([sorter.key, "event_id"])
    )


def _settled(found: DataFrame) -> DataFrame:
    """What the reader has settled."""
    return found.filter("_kind IS NOT NULL").selectExpr("_kind AS kind", "_rows AS rows", "_data AS data")


def _counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Events that were let through are accepted; the reader has counted each of them as a duplicate."""
    if accepted := sum(batch.num_rows for batch in batches):
        counts = json.dumps({"accepted": accepted, "duplicates": -accepted}).encode()
        yield _output(KIND_COUNTS, 1, counts)


def _encoder(table: Table) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def encode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield _output(table.name, batch.num_rows, encode_table(table, pa.Table.from_batches([batch])))

    return encode


def _output(kind: str, rows: int, data: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"kind": kind, "rows": rows, "data": data}], schema=OUTPUT_SCHEMA)


def row_id(*columns: Column | str) -> Column:
    """`keyed.row_id` of texts and whole numbers that are not null."""
    texts = [(F.col(column) if isinstance(column, str) else column).cast("string") for column in columns]
    lengths = [F.length(text).cast("string") for text in texts]
    has_separator = reduce(lambda one, other: one | other, [text.contains("\0") for text in texts])
    whole = F.when(has_separator, F.concat_ws("\0", *lengths, *texts)).otherwise(F.concat_ws("\0", *texts))
    return F.substring(F.sha2(whole, 256), 1, 32)


def event_instant(column: Column | str) -> Column:
    """An event's time as it was written, to the millisecond; the watermark is not compared with it."""
    return F.timestamp_millis(F.unix_millis(column))
