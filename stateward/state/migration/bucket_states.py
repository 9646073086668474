"""States on their way into buckets, and the proof that they have come there.

Before they are written and after, each bucket comes to a checksum of its keys and states, the number of keys,
and the time at which it is to be looked at first. Both sides have to be the same, bucket by bucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from stateward.runtime.ingest.packed_format import LANE_EVENT
from stateward.runtime.keyed.state_log import HEAD_NAME, encode_chunk
from stateward.state.migration.bucket_writer import STAGED_DDL
from stateward.state.operation.errors import StateError
from stateward.state.reader.retained_batches import Retained, retained
from stateward.state.reader.state_reader import keyed_rows, load
from stateward.state.reader.stores import Store, stores

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

STATES_DDL = "bucket int, key string, state binary, wake_ms bigint"
"""A key with its bucket, what is kept for it (`codec`), and its alarm."""

STATES_SCHEMA = pa.schema(
    [("bucket", pa.int32()), ("key", pa.string()), ("state", pa.binary()), ("wake_ms", pa.int64())]
)
_STAGED_SCHEMA = pa.schema(
    [("bucket", pa.int32()), ("entries", pa.binary()), ("keys", pa.int32()), ("timer_ms", pa.int64())]
)
# A chunk is read and cleaned as a whole.
_KEYS_PER_CHUNK = 1000
_SHOWN = 5
_BITS = 2**64


class BucketProofError(StateError):
    """What was written is not what it was to be."""


@dataclass(frozen=True)
class BucketSum:
    """What a bucket comes to.

    Attributes:
        keys: How many.
        content: Checksum of keys and states.
        timer_ms: When it is to be looked at first (ms since 1970 UTC).
    """

    keys: int
    content: str
    timer_ms: int | None


Sums = dict[int, BucketSum]
"""By bucket; one without keys is not there."""


@dataclass(frozen=True)
class Total:
    """What states come to, whatever their buckets.

    Attributes:
        keys: How many.
        distinct: How many different keys.
        content: Checksum of keys and states.
        alarms: Checksum of keys and their alarms; empty where these are not known.
    """

    keys: int
    distinct: int
    content: str
    alarms: str


def parts(states: DataFrame) -> DataFrame:
    """Chunks of states (`STATES_DDL`), as they are staged: `STAGED_DDL`."""

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
    """What some states (`STATES_DDL`, which may lack the alarms) come to."""
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


def kept_states(spark: SparkSession, stream: str, checkpoint_uri: str) -> DataFrame:
    """The keys and states that a checkpoint holds: ``key string, state binary``."""
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
    """Make sure that a checkpoint's state is what was to be written, each key where it is looked for.

    The states are computed once more, so a function that does not give the same each time is found too.

    Args:
        spark: A session, with the checkpoint's format.
        stream: Its name.
        checkpoint_uri: The checkpoint.
        states: What was to be written: `STATES_DDL`.
        buckets: How many the stream has.
        state_version: Version of the states.

    Returns:
        What each bucket comes to.

    Raises:
        BucketProofError: It is something else.
    """
    expected = _sums_of(states)
    found = retained(checkpoint_uri, stream)
    store = keyed_store(spark, found)
    problems = [*_misplaced(spark, found, store, buckets), *_different(spark, found, store, expected)]
    wrong = [one for one in versions_of(spark, found, store).values() if one != state_version]
    if wrong:
        problems.append(f"{len(wrong)} buckets of version {wrong[0]} where {state_version} was expected")
    if problems:
        raise BucketProofError(
            f"stream {stream}: expected {sum(one.keys for one in expected.values())} keys in "
            f"{checkpoint_uri}, each as it was computed, found {'; '.join(problems[:_SHOWN])}; the stream's "
            "state is as it was: look whether the functions of its steps give the same each time, or report "
            "this"
        )
    return expected


def keyed_store(spark: SparkSession, found: Retained) -> Store:
    """The store with the log of buckets.

    Raises:
        StateError: There is none: the stream keeps its state in Spark's own operators, or has none.
    """
    for store in stores(spark, found.uri):
        if store.is_keyed:
            return store
    raise found.error(
        "expected the state of a stream of keyed logic, found none: what Spark's own operators keep has no "
        "functions by which it could become another one"
    )


def versions_of(spark: SparkSession, found: Retained, store: Store) -> dict[int, int]:
    """By bucket the version of its states."""
    rows = (
        load(spark, found, store, variable=HEAD_NAME).select("key.bucket", "value.schema_version").collect()
    )
    return {row["bucket"]: row["schema_version"] for row in rows}


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
            yield f"a head of bucket {bucket} that says {heads.get(bucket)}"
    if sorted(timers) != sorted((bucket, one.timer_ms) for bucket, one in expected.items()):
        yield f"{len(timers)} timers, not those of the {len(expected)} buckets that have keys"


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
            yield f"{row[what]} keys in other {what} than they are looked for in"


def _sums_of(states: DataFrame) -> Sums:
    """What each bucket comes to."""
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
