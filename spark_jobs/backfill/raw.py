"""The landed records of a stream's topic, less those that were late, as packed events (`reading`)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spark_jobs.backfill.reach import Landed
from spark_jobs.backfill.reading import PACKED_DDL, Reading
from spark_jobs.backfill.request import BackfillError, Request
from spark_jobs.runtime.tables import LATE_EVENTS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def read_raw(spark: SparkSession, request: Request) -> DataFrame:
    """The landed records of the stream's topic."""
    raw = spark.read.format("delta").load(request.raw_uri)
    return raw.where(F.col("topic") == request.config.topic)


def landed(raw: DataFrame, request: Request) -> dict[int, Landed]:
    """What there is of each partition.

    Raises:
        BackfillError: Nothing.
    """
    rows = (
        raw.groupBy("partition")
        .agg(
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
            F.unix_millis(F.min_by("record_timestamp", "offset")).alias("first_ms"),
        )
        .collect()
    )
    if not rows:
        config = request.config
        raise BackfillError(
            f"stream {config.stream}: expected records of topic {config.topic} in {request.raw_uri}, found "
            "none. Start the stream raw_events, with the topic among its source.topics, while Kafka has them."
        )
    return {row["partition"]: Landed(row["first"], row["last"] + 1, row["first_ms"]) for row in rows}


def wanted(spark: SparkSession, raw: DataFrame, request: Request, since_ms: int | None) -> DataFrame:
    """The records that may hold events from ``since_ms`` on (all if None), less those that were late.

    A record is written at most ``max_ahead_ms`` before the time of its event, and any time after it: so only
    the begin can be told from Kafka's timestamp.
    """
    found = raw
    if since_ms is not None:
        oldest = datetime.fromtimestamp((since_ms - request.config.max_ahead_ms) / 1000, UTC)
        found = found.where(F.col("date") >= F.lit(oldest.date())).where(
            F.col("record_timestamp") >= F.lit(oldest)
        )
    if not request.with_late:
        late = spark.read.format("delta").load(request.config.tables[LATE_EVENTS.name])
        mine = (F.col("stream") == request.config.stream) & (F.col("topic") == request.config.topic)
        found = found.join(
            late.where(mine).select("partition", "offset").distinct(), ["partition", "offset"], "left_anti"
        )
    return found.select(
        "partition", "offset", F.unix_millis("record_timestamp").alias("record_ms"), "key", "value"
    )


def packed_events(records: DataFrame, how: Reading) -> DataFrame:
    """The events of records, `PACKED_DDL`."""

    def batches(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return how.batches(found)

    return records.mapInArrow(batches, PACKED_DDL)
