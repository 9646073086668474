"""The landed records of a stream's topic, without late ones, as packed events (`reading`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from pyspark.sql import functions as F

from stateward.contract.privacy.forgotten import Register, Spans
from stateward.recompute.lookback import Landed
from stateward.recompute.reading import PACKED_DDL, Reading
from stateward.recompute.request import BackfillError, Request
from stateward.runtime.api.record_fields import Reason
from stateward.runtime.api.tables import DEAD_LETTERS, LATE_EVENTS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def read_raw(spark: SparkSession, request: Request) -> DataFrame:
    """Return the landed records of the stream's topic."""
    raw = spark.read.format("delta").load(request.raw_uri)
    return raw.where(F.col("topic") == request.config.topic)


def landed(raw: DataFrame, request: Request) -> dict[int, Landed]:
    """Return the landed records of each partition.

    Raises:
        BackfillError: None are landed.
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
    found = {row["partition"]: Landed(row["first"], row["last"] + 1, row["first_ms"]) for row in rows}
    return with_forgotten(found, Register(request.config.forgotten_uri).offsets(request.config.topic))


def with_forgotten(landed: Mapping[int, Landed], forgotten: Mapping[int, Spans]) -> dict[int, Landed]:
    """Return the landed records as if those of forgotten keys were among them: nothing is missing for them.

    Args:
        landed: By partition.
        forgotten: Their offsets, by partition.
    """
    found = dict(landed)
    latest_ms = max(one.first_ms for one in landed.values())
    for partition, spans in forgotten.items():
        if one := landed.get(partition):
            found[partition] = Landed(spans.before(one.first), spans.after(one.end), one.first_ms)
        elif spans:
            # All that is landed of it was forgotten; its time is not known, and later is the safe side.
            first, end = spans.spans[0][0], spans.spans[-1][1] + 1
            found[partition] = Landed(first, end, latest_ms)
    return found


def wanted(spark: SparkSession, raw: DataFrame, request: Request, since_ms: int | None) -> DataFrame:
    """Return the records that may hold events from ``since_ms`` on (all if None), without refused ones.

    Refused are those that were late or too far ahead when the stream read them.

    A record is written at most ``max_ahead_ms`` before the time of its event, or any time after it. So
    Kafka's timestamp bounds the events from below only.
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
    # A stream that has never run has refused nothing.
    if DeltaTable.is_deltatable(request.config.tables[DEAD_LETTERS.name]):
        found = found.join(_too_far_ahead(spark, request), ["partition", "offset"], "left_anti")
    return found.select("partition", "offset", "key", "value")


def _too_far_ahead(spark: SparkSession, request: Request) -> DataFrame:
    """Offsets of records that were too far ahead when the stream read them; that cannot be judged again."""
    config = request.config
    dead = spark.read.format("delta").load(config.tables[DEAD_LETTERS.name])
    mine = (F.col("stream") == config.stream) & (F.col("topic") == config.topic)
    ahead = F.col("reason") == Reason.EVENT_TIME_IN_FUTURE.value
    return dead.where(mine & ahead).select("partition", "offset").distinct()


def packed_events(records: DataFrame, how: Reading) -> DataFrame:
    """Return the events of records, `PACKED_DDL`."""

    def batches(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return how.batches(found)

    return records.mapInArrow(batches, PACKED_DDL)
