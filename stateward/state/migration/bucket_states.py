"""Prepares states for their buckets, and verifies them after the write.

Each bucket has a checksum of its keys and states, a number of keys, and the time of its first timer. The
values before and after the write must be equal, bucket by bucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from stateward.runtime.ingest.packed_format import LANE_EVENT
from stateward.runtime.keyed.state_log import HEAD_NAME, encode_chunk
from stateward.state.errors import StateError
from stateward.state.migration.bucket_writer import STAGED_DDL
from stateward.state.reader.retained_batches import Retained, retained
from stateward.state.reader.state_reader import keyed_rows, load, versions
from stateward.state.reader.stores import Store, stores

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

STATES_DDL = "bucket int, key string, state binary, wake_ms bigint"
"""A key with its bucket, its state (`codec`), and its timer."""

STATES_SCHEMA = pa.schema(
    [("bucket", pa.int32()), ("key", pa.string()), ("state", pa.binary()), ("wake_ms", pa.int64())]
)
_STAGED_SCHEMA = pa.schema(
    [("bucket", pa.int32()), ("entries", pa.binary()), ("keys", pa.int32()), ("timer_ms", pa.int64())]
)
# A chunk is read and compacted as a whole.
_KEYS_PER_CHUNK = 1000
_SHOWN = 5
_BITS = 2**64


class BucketProofError(StateError):
    """The written state differs from the computed one."""


@dataclass(frozen=True)
class BucketSum:
    """The checksum of a bucket.

    Attributes:
        keys: Number of keys.
        content: Checksum of keys and states.
        timer_ms: Time of its first timer (ms since 1970 UTC).
    """

    keys: int
    content: str
    timer_ms: int | None


Sums = dict[int, BucketSum]
"""Checksums by bucket; a bucket without keys has none."""


@dataclass(frozen=True)
class Total:
    """The checksum of some states, independent of their buckets.

    Attributes:
        keys: Number of keys.
        distinct: Number of distinct keys.
        content: Checksum of keys and states.
        alarms: Checksum of keys and their timers; empty if unknown.
    """

    keys: int
    distinct: int
    content: str
    alarms: str


def to_chunks(states: DataFrame) -> DataFrame:
    """The chunks (`STAGED_DDL`) of some states (`STATES_DDL`)."""

    def of_bucket(found: pa.Table) -> pa.Table:
        rows = list(_chunks(found))
        return pa.Table.from_pylist(rows, schema=_STAGED_SCHEMA)

    return states.groupBy("bucket").applyInArrow(of_bucket, STAGED_DDL)


def _chunks(found: pa.Table) -> Iterator[dict[str, Any]]:
    bucket = found.column("bucket")[0].as_py()
    for begin in range(0, found.num_rows, _KEYS_PER_CHUNK):
        chunk = found.slice(begin, _KEYS_PER_CHUNK)
        keys, states, wakes = (chunk.column(name).to_pylist() for name in ("key", "state", "wake_ms"))
        yield {
            "bucket": bucket,
            "entries": encode_chunk(dict(zip(keys, states, strict=True))),
            "keys": len(keys),
            "timer_ms": min(wakes),
        }


def total_of(states: DataFrame) -> Total:
    """The checksum of some states (`STATES_DDL`, in which the timers may be missing)."""
    has_alarms = "wake_ms" in states.columns
    alarm = F.xxhash64("key", "wake_ms") if has_alarms else F.lit(0).cast("bigint")
    row = states.agg(
        *_sums(),
        F.countDistinct("key").alias("distinct"),
        F.coalesce(F.sum(alarm.cast("decimal(20,0)")), F.lit(0)).alias("alarms"),
    ).collect()[0]
    if not row["keys"]:
        return Total(0, 0, "", "")
    alarms = f"{int(row['alarms']) % _BITS:016x}" if has_alarms else ""
    return Total(row["keys"], row["distinct"], _checksum(row), alarms)


def stored_states(spark: SparkSession, stream: str, checkpoint_uri: str) -> DataFrame:
    """The keys and states in a checkpoint: ``key string, state binary``."""
    found = retained(checkpoint_uri, stream)
    return keyed_rows(spark, found, keyed_store(spark, found)).select("key", "state")


def prove(
    spark: SparkSession,
    stream: str,
    checkpoint_uri: str,
    states: DataFrame,
    *,
    buckets: int,
    state_version: int,
) -> Sums:
    """Verify that a checkpoint has the expected states, each key where it is looked up.

    The states are computed again, which also detects a nondeterministic function.

    Args:
        spark: A session, with the checkpoint's format.
        stream: Name of the stream.
        checkpoint_uri: The checkpoint.
        states: The expected states: `STATES_DDL`.
        buckets: Number of the stream's buckets.
        state_version: Version of the states.

    Returns:
        The checksums by bucket.

    Raises:
        BucketProofError: The states differ.
    """
    expected = _sums_of(states)
    found = retained(checkpoint_uri, stream)
    store = keyed_store(spark, found)
    problems = [*_misplaced(spark, found, store, buckets), *_different(spark, found, store, expected)]
    wrong = [one for one in versions(spark, found, store).values() if one != state_version]
    if wrong:
        problems.append(f"{len(wrong)} buckets of version {wrong[0]} where {state_version} was expected")
    if problems:
        raise BucketProofError(
            f"stream {stream}: expected {sum(one.keys for one in expected.values())} keys in "
            f"{checkpoint_uri}, each as computed, found {'; '.join(problems[:_SHOWN])}. The stream's state "
            "is unchanged. Check that the functions of its steps are deterministic; if they are, report this"
        )
    return expected


def keyed_store(spark: SparkSession, found: Retained) -> Store:
    """Find the store with the log of buckets.

    Raises:
        StateError: There is none: the stream uses Spark's built-in operators, or has no state.
    """
    for store in stores(spark, found.uri):
        if store.is_keyed:
            return store
    raise found.error(
        "expected the state of a keyed stream, found none: the state of Spark's built-in operators has no "
        "functions that could convert it"
    )


def _different(spark: SparkSession, found: Retained, store: Store, expected: Sums) -> Iterator[str]:
    rows = keyed_rows(spark, found, store).groupBy("bucket").agg(*_sums()).collect()
    contents = {row["bucket"]: (row["keys"], _checksum(row)) for row in rows}
    heads = {
        row["bucket"]: (row["live"], row["timer_ms"])
        for row in load(spark, found, store, variable=HEAD_NAME)
        .select("key.bucket", "value.live", "value.timer_ms")
        .collect()
    }
    timers = [
        (row["bucket"], row["expiration_timestamp_ms"])
        for row in load(spark, found, store, timers=True)
        .select("key.bucket", "expiration_timestamp_ms")
        .collect()
    ]
    for bucket in sorted(expected.keys() | contents.keys() | heads.keys()):
        wanted = expected.get(bucket)
        if contents.get(bucket) != (None if wanted is None else (wanted.keys, wanted.content)):
            yield f"other keys or states in bucket {bucket}"
        elif heads.get(bucket) != (None if wanted is None else (wanted.keys, wanted.timer_ms)):
            yield f"a head of bucket {bucket} with {heads.get(bucket)}"
    if sorted(timers) != sorted((bucket, one.timer_ms) for bucket, one in expected.items()):
        yield f"{len(timers)} timers that are not those of the {len(expected)} buckets with keys"


def _misplaced(spark: SparkSession, found: Retained, store: Store, buckets: int) -> Iterator[str]:
    rightful = F.pmod(F.crc32(F.encode("key", "UTF-8")), F.lit(buckets)).cast("int")
    place = F.pmod(F.hash(F.lit(LANE_EVENT), F.col("bucket")), F.lit(store.partitions))
    row = (
        keyed_rows(spark, found, store)
        .agg(
            F.count_if(rightful != F.col("bucket")).alias("buckets"),
            F.count_if(place != F.col("partition")).alias("partitions"),
        )
        .collect()[0]
    )
    for what in ("buckets", "partitions"):
        if row[what]:
            yield f"{row[what]} keys in other {what} than those in which they are looked up"


def _sums_of(states: DataFrame) -> Sums:
    rows = states.groupBy("bucket").agg(*_sums(), F.min("wake_ms").alias("timer_ms")).collect()
    return {row["bucket"]: BucketSum(row["keys"], _checksum(row), row["timer_ms"]) for row in rows}


def _sums() -> list[Column]:
    entry = F.xxhash64("key", "state")
    return [
        F.count("*").alias("keys"),
        F.sum(entry.cast("decimal(20,0)")).alias("sum"),
        F.bit_xor(entry).alias("xor"),
    ]


def _checksum(row: Any) -> str:
    return f"{int(row['sum']) % _BITS:016x}-{row['xor'] % _BITS:016x}"
