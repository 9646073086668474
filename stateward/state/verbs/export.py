"""The verb ``export``: the state as of a batch, written to the Delta table `state_exports`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stateward.contract import names
from stateward.contract.process_output import Report
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.api.tables import Column, Table
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.state.errors import StateError
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.verb import ReadOnly
from stateward.state.reader.key_evaluator import KeyEvaluator, evaluator_of
from stateward.state.reader.keyed_variables import wakes
from stateward.state.reader.native_variables import rows_as_text
from stateward.state.reader.retained_batches import Retained, retained
from stateward.state.reader.state_reader import load, log_entries, per_bucket, versions
from stateward.state.reader.stores import Store, checkpoint_format, spark_errors_as, stores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stateward.runtime.api.any_job import AnyJob
    from stateward.runtime.api.config import Config

_MARKS = ("stream", "generation", "batch_id")
STATE_EXPORTS = Table(
    names.STATE_EXPORTS,
    "One key of a stream's state as of an exported batch, or one row of a Spark operator's state",
    (
        Column("stream", "string", "Stream whose state it is"),
        Column("generation", "string", "Id of the streaming query; a restored checkpoint is a new one"),
        Column("batch_id", "long", "The state is as of this micro-batch"),
        Column("watermark", "timestamp", "Watermark of the batch; null before the first tick"),
        Column("planned_at", "timestamp", "When the batch was planned"),
        Column("operator_id", "integer", "Spark's number of the stateful operator"),
        Column("operator", "string", "Spark's name of the stateful operator"),
        Column("store", "string", "State store of the operator; a join has four"),
        Column("partition", "integer", "State partition"),
        Column("bucket", "integer", "Bucket of a keyed stream"),
        Column("key", "string", "Key of a keyed stream; else the key's columns as JSON", personal=True),
        Column("value", "string", "State of the key, or the row's columns, as JSON", personal=True),
        Column("schema_version", "integer", "Version of the state's schema, of a keyed stream"),
        Column("timers", "array<timestamp>", "Watermarks at which the key or row is due; null if unknown"),
        Column("exported_at", "timestamp", "When it was exported"),
    ),
    partition_by=_MARKS,
    nullable=("watermark", "bucket", "schema_version", "timers"),
)

_DDL = "partition int, bucket int, key string, value string, schema_version int, due_ms bigint"
_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("bucket", pa.int32()),
        ("key", pa.string()),
        ("value", pa.string()),
        ("schema_version", pa.int32()),
        ("due_ms", pa.int64()),
    ]
)
# A logic may name a time beyond the year 9999, at which no table has a timestamp.
_LAST_MS = 253_402_300_799_999


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        stream: The stream.
        generation: Id of the checkpoint's query.
        batch_id: As of which batch.
        table_uri: The table.
        rows: Number of rows by operator and store, ``0 transformWithState… default``.
        without_timers: Rows whose timers are unknown.
    """

    stream: str
    generation: str
    batch_id: int
    table_uri: str
    rows: dict[str, int]
    without_timers: int


class ExportVerb(ReadOnly):
    """Write the state as of a retained batch to a table; the same batch again replaces what it wrote."""

    name = "export"

    def apply(self) -> Answer:
        """Export the current state, or a savepoint's.

        Raises:
            StateError: There is no such batch, or its state cannot be read or written.
        """
        context, arguments = self.context, self.context.request.arguments
        if not context.request.exports_uri:
            raise StateError(
                f"stream {context.stream}: expected a request with the table state_exports, found one of an "
                "earlier release; ask for the export again"
            )
        found = export(
            context.spark(),
            context.checkpoint(arguments["savepoint"]),
            context.stream,
            table_uri=context.request.exports_uri,
            now=context.clock(),
            job=context.job,
            config=context.request.config,
            batch_id=arguments["batch"],
            keep=arguments["keep"],
            report=context.report,
        )
        total = sum(found.rows.values())
        lines = [f"{found.stream} as of batch {found.batch_id}: {total:,} rows are in {found.table_uri}."]
        if not found.rows:
            lines.append("The stream keeps no state.")
        if found.without_timers:
            lines.append(f"The timers of {found.without_timers:,} rows are not known; they are null.")
        listing = Listing("Rows", ("operator and store", "rows"), sorted(found.rows.items()))
        return Answer(tuple(lines), (listing,), asdict(found))


def export(
    spark: SparkSession,
    checkpoint_uri: str,
    stream: str,
    *,
    table_uri: str,
    now: datetime,
    job: AnyJob | None = None,
    config: Config | None = None,
    batch_id: int | None = None,
    keep: int | None = None,
    report: Report = lambda step, state: None,
) -> Exported:
    """Write the state as of a batch to a table; nothing is written to the checkpoint.

    Spark's executors read and write it. One commit replaces the rows of an earlier export of the batch.

    Args:
        spark: A session; it need not be the one that runs the stream.
        checkpoint_uri: One generation's folder, or a savepoint's copy of one.
        stream: Name of the stream.
        table_uri: The table, which is created if it is missing.
        now: The time, aware.
        job: The stream's declaration. With it and ``config`` the keys of a keyed stream have timers.
        config: Its launch.
        batch_id: As of which retained batch; None for the newest.
        keep: How many of the stream's newest exports stay, this one among them; None for all.
        report: Called with each step and its state.

    Raises:
        StateError: There is no such batch, or its state cannot be read or written.
    """
    found = retained(checkpoint_uri, stream, batch_id)
    generation = Checkpoint(found.uri).query_id()
    if generation is None:
        raise found.error("expected the metadata of a query, found none; restore an intact savepoint")
    evaluator = evaluator_of(job, config) if isinstance(job, StreamJob) and config is not None else None
    report("operators", "reading")
    all_stores = stores(spark, found.uri)
    written = Exported(stream, generation, found.batch_id, table_uri, {}, 0)
    if not all_stores:
        return written
    STATE_EXPORTS.create(table_uri)
    report("state", "writing")
    with spark_errors_as(found.error, "its state could not be exported"), checkpoint_format(spark, found.uri):
        parts = [_rows(spark, found, store, evaluator) for store in all_stores]
        rows = _marked(reduce(lambda one, other: one.unionByName(other), parts), found, generation, now)
        where = _partition(stream, generation, found.batch_id)
        writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", where)
        writer.partitionBy(*_MARKS).save(table_uri)
        if keep is not None:
            _remove_old(spark, table_uri, stream, keep)
        return _counted(spark, written, where)


def _rows(spark: SparkSession, found: Retained, store: Store, evaluator: KeyEvaluator | None) -> DataFrame:
    """The rows of one store, without what all have in common."""
    from pyspark.sql import functions as F

    if store.is_keyed:
        make = _row_maker(evaluator, versions(spark, found, store))
        frame = per_bucket(log_entries(spark, found, store), _DDL, make, _SCHEMA)
    else:
        nothing = F.lit(None).cast("int")
        frame = rows_as_text(store, load(spark, found, store)).select(
            "partition",
            nothing.alias("bucket"),
            "key",
            "value",
            nothing.alias("schema_version"),
            F.col("ends_ms").alias("due_ms"),
        )
    due = F.timestamp_millis(F.least("due_ms", F.lit(_LAST_MS)))
    return frame.select(
        F.lit(store.operator_id).alias("operator_id"),
        F.lit(store.operator).alias("operator"),
        F.lit(store.name).alias("store"),
        "partition",
        "bucket",
        "key",
        "value",
        "schema_version",
        F.when(F.col("due_ms").isNotNull(), F.array(due)).alias("timers"),
    )


def _row_maker(
    evaluator: KeyEvaluator | None, schemas: dict[int, int]
) -> Callable[[int, int, dict[str, tuple[int, bytes]]], list[dict[str, Any]]]:
    def rows(partition: int, bucket: int, states: dict[str, tuple[int, bytes]]) -> list[dict[str, Any]]:
        version = schemas[bucket]
        due = {} if evaluator is None else wakes(evaluator, version, states)
        return [
            {
                "partition": partition,
                "bucket": bucket,
                "key": key,
                "value": state.decode(),
                "schema_version": version,
                "due_ms": due.get(key),
            }
            for key, (_, state) in states.items()
        ]

    return rows


def _marked(rows: DataFrame, found: Retained, generation: str, now: datetime) -> DataFrame:
    """The rows with all columns of the table, in its order."""
    from pyspark.sql import functions as F

    watermark = F.timestamp_millis(F.lit(found.watermark_ms)) if found.watermark_ms else F.lit(None)
    marks = {
        "stream": F.lit(found.stream),
        "generation": F.lit(generation),
        "batch_id": F.lit(found.batch_id).cast("bigint"),
        "watermark": watermark.cast("timestamp"),
        "planned_at": F.timestamp_millis(F.lit(found.planned_ms)),
        "exported_at": F.timestamp_millis(F.lit(int(now.timestamp() * 1000))),
    }
    return rows.withColumns(marks).select(*(column.name for column in STATE_EXPORTS.columns))


def _remove_old(spark: SparkSession, table_uri: str, stream: str, keep: int) -> None:
    """Remove all but the newest exports of a stream: whole partitions, so that no file is rewritten."""
    from pyspark.sql import functions as F

    exports = (
        spark.read.format("delta")
        .load(table_uri)
        .where(F.col("stream") == stream)
        .groupBy("generation", "batch_id")
        .agg(F.max("exported_at").alias("at"))
        .orderBy(F.desc("at"), F.desc("batch_id"))
        .collect()
    )
    for old in exports[keep:]:
        where = _partition(stream, old["generation"], old["batch_id"])
        spark.sql(f"DELETE FROM delta.`{table_uri}` WHERE {where}")


def _partition(stream: str, generation: str, batch_id: int) -> str:
    return f"stream = '{stream}' AND generation = '{generation}' AND batch_id = {batch_id}"


def _counted(spark: SparkSession, written: Exported, where: str) -> Exported:
    """What the table has of this export."""
    from pyspark.sql import functions as F

    rows = (
        spark.read.format("delta")
        .load(written.table_uri)
        .where(where)
        .groupBy("operator_id", "operator", "store")
        .agg(F.count("*").alias("rows"), F.count_if(F.col("timers").isNull()).alias("without"))
        .collect()
    )
    by_store = {f"{row['operator_id']} {row['operator']} {row['store']}": row["rows"] for row in rows}
    without = sum(row["without"] for row in rows)
    return Exported(**{**asdict(written), "rows": by_store, "without_timers": without})
