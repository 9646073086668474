"""Reads the state of a retained batch through Spark's ``statestore`` source; never writes.

A keyed stream has its states in the log of its buckets (`stateward.runtime.keyed.state_log`). The stores of
Spark's built-in operators are read as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stateward.runtime.keyed.state_log import GONE, HEAD_NAME, LOG_NAME, Chunk, decode_chunk
from stateward.state.reader import stores as in_stores
from stateward.state.reader.retained_batches import Retained
from stateward.state.reader.stores import Store, checkpoint_format, spark_errors_as

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENTRIES_DDL = "partition int, bucket int, seq bigint, entries binary"


@contextmanager
def readable(spark: SparkSession, found: Retained) -> Iterator[None]:
    """Let the session read a checkpoint of any format.

    Raises:
        StateError: Spark failed; with the stream, the batch, the retained batches, and Spark's message.
    """
    expected = "expected a state that Spark can read, found"
    with spark_errors_as(found.error, expected), checkpoint_format(spark, found.uri):
        yield


def load(
    spark: SparkSession,
    found: Retained,
    store: Store,
    *,
    variable: str | None = None,
    timers: bool = False,
    batch_id: int | None = None,
    changes: tuple[int, int] | None = None,
) -> DataFrame:
    """Load one store with Spark's source.

    Args:
        spark: A session, not necessarily the stream's.
        found: The checkpoint and the batch; `readable` during the use of the result.
        store: The store.
        variable: A variable of a keyed stream.
        timers: Whether to read its timers instead of a variable.
        batch_id: A retained batch; by default ``found.batch_id``.
        changes: First and last batch of a change feed, which is read instead of the state. A batch of a
            repartition must not be among them.
    """
    options = {}
    if changes is None:
        batch_id = found.batch_id if batch_id is None else batch_id
    else:
        first, last = changes
        options = {
            "readChangeFeed": "true",
            "changeStartBatchId": str(first),
            "changeEndBatchId": str(last),
        }
    return in_stores.load(
        spark, found.uri, store, variable=variable, timers=timers, batch_id=batch_id, options=options
    )


def log_entries(
    spark: SparkSession, found: Retained, store: Store, *, batch_id: int | None = None
) -> DataFrame:
    """The chunks of a keyed stream's log: `ENTRIES_DDL`."""
    return load(spark, found, store, variable=LOG_NAME, batch_id=batch_id).selectExpr(
        "partition_id AS partition",
        "key.bucket AS bucket",
        "user_map_key.seq AS seq",
        "user_map_value.entries AS entries",
    )


def newest(chunks: Iterable[tuple[int, bytes]]) -> dict[str, tuple[int, bytes]]:
    """The newest state of each key in the chunks of one bucket, and the number of its chunk.

    Args:
        chunks: Number and content of each chunk, in any order.
    """
    found: dict[str, tuple[int, bytes]] = {}
    for seq, entries in sorted(chunks):
        chunk: Chunk = decode_chunk(entries)
        for key, state in chunk.items():
            found[key] = seq, state
    return {key: (seq, state) for key, (seq, state) in found.items() if state != GONE}


def per_bucket(
    entries: DataFrame,
    ddl: str,
    make: Callable[[int, int, dict[str, tuple[int, bytes]]], list[dict[str, Any]]],
    schema: pa.Schema,
) -> DataFrame:
    """Apply a function to the newest states of each bucket.

    Args:
        entries: Result of `log_entries`.
        ddl: The result's columns.
        make: Maps partition, bucket and `newest` to rows; runs in the workers.
        schema: The result's columns as an Arrow schema.
    """

    def of_bucket(chunks: pa.Table) -> pa.Table:
        columns = (chunks.column(name).to_pylist() for name in ("partition", "bucket", "seq", "entries"))
        partitions, buckets, seqs, texts = columns
        rows = make(partitions[0], buckets[0], newest(zip(seqs, texts, strict=True)))
        return pa.Table.from_pylist(rows, schema=schema)

    return entries.groupBy("partition", "bucket").applyInArrow(of_bucket, ddl)


KEYS_DDL = "partition int, bucket int, key string, seq bigint, state binary"
_KEYS_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("bucket", pa.int32()),
        ("key", pa.string()),
        ("seq", pa.int64()),
        ("state", pa.binary()),
    ]
)


def versions(spark: SparkSession, found: Retained, store: Store) -> dict[int, int]:
    """Schema version of the states by bucket."""
    heads = load(spark, found, store, variable=HEAD_NAME)
    rows = heads.selectExpr("key.bucket AS bucket", "value.schema_version AS version").collect()
    return {row["bucket"]: row["version"] for row in rows}


def keyed_rows(
    spark: SparkSession, found: Retained, store: Store, *, batch_id: int | None = None
) -> DataFrame:
    """The states of a keyed stream, a row per key: `KEYS_DDL`; ``state`` is JSON (`codec`)."""

    def rows(partition: int, bucket: int, states: dict[str, tuple[int, bytes]]) -> list[dict[str, Any]]:
        return [
            {"partition": partition, "bucket": bucket, "key": key, "seq": seq, "state": state}
            for key, (seq, state) in states.items()
        ]

    entries = log_entries(spark, found, store, batch_id=batch_id)
    return per_bucket(entries, KEYS_DDL, rows, _KEYS_SCHEMA)


def stored_bytes(spark: SparkSession, found: Retained, store: Store) -> DataFrame:
    """Measure a store as it is stored: a row per variable and partition.

    ``family string, partition int, entries bigint, key_bytes bigint, value_bytes bigint``. It uses an
    internal option of Spark, made for its offline repartition; only this function uses it.
    """
    from pyspark.sql import functions as F

    options = {"_readAllColumnFamilies": "true"}
    return (
        in_stores.load(spark, found.uri, store, batch_id=found.batch_id, options=options)
        # The source has the partitions of the store, in order.
        .select("column_family_name", "key_bytes", "value_bytes", F.spark_partition_id().alias("partition"))
        .groupBy(F.col("column_family_name").alias("family"), "partition")
        .agg(
            F.count("*").alias("entries"),
            F.sum(F.length("key_bytes")).alias("key_bytes"),
            F.sum(F.length("value_bytes")).alias("value_bytes"),
        )
    )
