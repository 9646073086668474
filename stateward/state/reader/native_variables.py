"""Measures the stores of Spark's built-in operators, and when their rows expire if their columns show it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructType, TimestampType

from stateward.state.reader.measures import BINS, LargeKey, Load, Timers, Variable, loads
from stateward.state.reader.retained_batches import Retained
from stateward.state.reader.state_reader import load, readable, stored_bytes
from stateward.state.reader.stores import SESSION_WINDOW, Store

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

AGGREGATE, DISTINCT, JOIN = "stateStoreSave", "dedupeWithinWatermark", "symmetricHashJoin"

_MEANINGS = {
    AGGREGATE: "groups of an aggregation",
    SESSION_WINDOW: "open sessions",
    DISTINCT: "ids of events, so that each counts once",
    "left-keyToNumValues": "left side of the join: how many rows a key has",
    "left-keyWithIndexToValue": "left side of the join: the rows",
    "right-keyToNumValues": "right side of the join: how many rows a key has",
    "right-keyWithIndexToValue": "right side of the join: the rows",
}

# Spark's default format drops microseconds, and fields that are null.
_TEXT = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timeZone": "UTC",
    "ignoreNullFields": "false",
}

# Why a row expires.
BY_WINDOW = "the watermark reaches the end of its window: the group is written, and removed"
BY_SESSION = "the watermark reaches the end of its session: it is written, and removed"
BY_TIME = "the watermark passes its event time: the group is written, and removed"
BY_HORIZON = "the watermark passes the time until which its id is remembered"
BY_JOIN = "the watermark passes the last time at which a match is possible (the join's range)"
UNKNOWN = "Spark's operator decides by the watermark"


def row_expiry(store: Store, frame: DataFrame) -> tuple[Column, str]:
    """When a row of a store expires (ms since 1970 UTC; null if its columns do not show it), and why.

    A time between two milliseconds is rounded up.
    """
    key, value = (frame.schema[name].dataType for name in ("key", "value"))
    nothing = F.lit(None).cast("bigint")
    if store.operator == SESSION_WINDOW and isinstance(value, StructType):
        ends = [field.name for field in value.fields if _is_window(field.dataType)]
        if len(ends) == 1:
            return F.expr(f"(unix_micros(value.`{ends[0]}`.end) + 999) div 1000"), BY_SESSION
    if store.operator == DISTINCT and isinstance(value, StructType) and "expiresAtMicros" in value.names:
        return F.expr("(value.expiresAtMicros + 999) div 1000"), BY_HORIZON
    if store.operator == AGGREGATE and isinstance(key, StructType):
        if "window" in key.names and isinstance(key["window"].dataType, StructType):
            return F.unix_millis("key.window.end"), BY_WINDOW
        times = [field.name for field in key.fields if isinstance(field.dataType, TimestampType)]
        if len(times) == 1:
            return F.expr(f"(unix_micros(key.`{times[0]}`) + 999) div 1000"), BY_TIME
    return nothing, BY_JOIN if store.operator == JOIN else UNKNOWN


def _is_window(kind: DataType) -> bool:
    return isinstance(kind, StructType) and kind.names == ["start", "end"]


def rows_as_text(store: Store, frame: DataFrame) -> DataFrame:
    """The rows of a store or of its change feed, as text.

    Returns:
        ``partition int, owner string, key string, value string, ends_ms bigint``, and the columns of a change
        feed; key and value are JSON, ``owner`` is the first field of the key.
    """
    feed = [name for name in ("batch_id", "change_type") if name in frame.columns]
    key = frame.schema["key"].dataType
    assert isinstance(key, StructType)
    return frame.select(
        *feed,
        F.col("partition_id").alias("partition"),
        F.col("key")[key.names[0]].cast("string").alias("owner"),
        F.to_json("key", _TEXT).alias("key"),
        F.to_json("value", _TEXT).alias("value"),
        row_expiry(store, frame)[0].alias("ends_ms"),
    )


def rows_with_key(frame: DataFrame, wanted: str) -> DataFrame:
    """The rows of a store whose key has a text field equal to ``wanted``."""
    key = frame.schema["key"].dataType
    assert isinstance(key, StructType)
    texts = [field.name for field in key.fields if isinstance(field.dataType, StringType)]
    condition = F.lit(False)
    for name in texts:
        condition = condition | (F.col("key")[name] == wanted)
    return frame.where(condition)


def native_variable(spark: SparkSession, found: Retained, store: Store, most: int) -> Variable:
    """Measure one store of a built-in operator.

    Raises:
        StateError: Spark cannot read it.
    """
    with readable(spark, found):
        rows = rows_as_text(store, load(spark, found, store))
        due = _due(rows, found.watermark_ms)
        stored = stored_bytes(spark, found, store).collect()
        large, keys, json_bytes = _largest(rows, most)
    parts = [
        Load(
            row["partition"], row["entries"], row["key_bytes"], row["value_bytes"], due.get(row["partition"])
        )
        for row in stored
    ]
    return Variable(
        store.operator_id,
        store.operator,
        store.name,
        _MEANINGS.get(store.name) or _MEANINGS.get(store.operator) or "state of a built-in operator of Spark",
        sum(part.keys for part in parts),
        sum(part.key_bytes for part in parts),
        sum(part.value_bytes for part in parts),
        "stored",
        loads(parts, range(store.partitions)),
        timers=sum(due.values(), Timers()) if due else None,
        largest=large,
        keys=keys,
        json_bytes=json_bytes,
    )


def row_count(spark: SparkSession, found: Retained, store: Store, batch_id: int) -> int:
    """Number of rows of the store in another retained batch."""
    return load(spark, found, store, batch_id=batch_id).count()


def _due(rows: DataFrame, watermark_ms: int) -> dict[int, Timers]:
    """When the rows of each partition expire; empty if unknown."""
    ahead = F.col("ends_ms") - watermark_ms
    # A bin counts the rows that expire by its end, minus those that expire by the end of the previous bin.
    by = [F.count_if(ahead <= end_ms) if end_ms is not None else F.count("*") for _, end_ms in BINS]
    bins = [by[0], *(later - earlier for earlier, later in pairwise(by))]
    measured = (
        rows.where("ends_ms IS NOT NULL")
        .groupBy("partition")
        .agg(
            F.count("*").alias("count"),
            F.min("ends_ms").alias("oldest"),
            F.min(F.when(ahead > 0, F.col("ends_ms"))).alias("next"),
            F.max("ends_ms").alias("latest"),
            F.array(*bins).alias("bins"),
        )
    )
    return {
        row["partition"]: Timers(
            row["count"], row["bins"][0], row["oldest"], row["next"], row["latest"], tuple(row["bins"])
        )
        for row in measured.collect()
    }


def _largest(rows: DataFrame, most: int) -> tuple[tuple[LargeKey, ...], int, int]:
    """The largest keys, with the partition that has most of each; number and bytes of all keys."""
    room = F.octet_length("key") + F.octet_length("value")
    # The rows of a key may be in several partitions, such as its windows.
    placed = rows.groupBy("owner", "partition").agg(
        F.count("*").alias("rows"), F.sum(room).alias("bytes"), F.min("ends_ms").alias("ends_ms")
    )
    by_owner = placed.groupBy("owner").agg(
        F.max_by("partition", "bytes").alias("partition"),
        F.sum("rows").alias("rows"),
        F.sum("bytes").alias("bytes"),
        F.min("ends_ms").alias("ends_ms"),
    )
    found = by_owner.orderBy(F.desc("bytes"), "owner").limit(most).collect()
    large = tuple(
        LargeKey(str(row["owner"]), row["partition"], None, row["rows"], row["bytes"], row["ends_ms"])
        for row in found
    )
    total = by_owner.agg(F.count("*").alias("keys"), F.sum("bytes").alias("bytes")).collect()[0]
    return large, total["keys"], total["bytes"] or 0
