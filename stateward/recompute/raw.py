"""The landed records of a stream's topics, without late ones, as packed events (`reading`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from pyspark.sql import functions as F

from stateward.contract.privacy.forgotten import Spans
from stateward.recompute.lookback import Landed
from stateward.recompute.reading import PACKED_DDL, Reading, forgotten_records
from stateward.recompute.request import BackfillError, Request
from stateward.runtime.api.record_fields import Reason
from stateward.runtime.api.tables import DEAD_LETTERS, LATE_EVENTS
from stateward.runtime.watermark.topic_partitions import Topics

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from stateward.runtime.api.config import Config


_SLOT = "_slot"
"""The column with the slot of a record's partition (`topic_partitions`)."""


def read_raw(spark: SparkSession, request: Request) -> DataFrame:
    """Return the landed records of the stream's topics, with their slots."""
    return _of_topics(spark.read.format("delta").load(request.raw_uri), request.config)


def _of_topics(records: DataFrame, config: Config) -> DataFrame:
    topics = Topics(config.topics)
    slot = F.lit(None).cast("int")
    for topic in config.topics:
        first_slot = F.lit(topics.slot(topic, 0))
        slot = F.when(F.col("topic") == topic, F.col("partition") + first_slot).otherwise(slot)
    return records.where(F.col("topic").isin(*config.topics)).withColumn(_SLOT, slot)


def landed(raw: DataFrame, request: Request) -> dict[int, Landed]:
    """Return the landed records of each partition, by slot.

    Raises:
        BackfillError: None are landed.
    """
    rows = (
        raw.groupBy(_SLOT)
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
            f"stream {config.stream}: expected records of {' or '.join(config.topics)} in {request.raw_uri}, "
            "found none. Start the stream raw_events, with the topic among its source.topics, while Kafka "
            "has them."
        )
    found = {row[_SLOT]: Landed(row["first"], row["last"] + 1, row["first_ms"]) for row in rows}
    return with_forgotten(found, forgotten_records(request.config))


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
        mine = _of_topics(late.where(F.col("stream") == request.config.stream), request.config)
        found = found.join(mine.select(_SLOT, "offset").distinct(), [_SLOT, "offset"], "left_anti")
    # A stream that has never run has refused nothing.
    if DeltaTable.is_deltatable(request.config.tables[DEAD_LETTERS.name]):
        found = found.join(_too_far_ahead(spark, request), [_SLOT, "offset"], "left_anti")
    return found.select(_SLOT, "offset", "key", "value")


def _too_far_ahead(spark: SparkSession, request: Request) -> DataFrame:
    """Places of records that were too far ahead when the stream read them; that cannot be judged again."""
    config = request.config
    dead = spark.read.format("delta").load(config.tables[DEAD_LETTERS.name])
    ahead = F.col("reason") == Reason.EVENT_TIME_IN_FUTURE.value
    mine = dead.where((F.col("stream") == config.stream) & ahead)
    return _of_topics(mine, config).select(_SLOT, "offset").distinct()


def packed_events(records: DataFrame, how: Reading) -> DataFrame:
    """Return the events of records, `PACKED_DDL`."""

    def batches(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return how.batches(found)

    return records.mapInArrow(batches, PACKED_DDL)
