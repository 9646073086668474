"""Reports one key of a keyed stream: its newest state, its future changes, its history in the log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stateward.runtime.ingest.packed_format import bucket_of
from stateward.runtime.keyed.state_log import GONE, HEAD_NAME, LOG_NAME, decode_chunk
from stateward.state.inspection.key_report import Entry, HistorySource, KeyReport, PendingTimer, StateChange
from stateward.state.inspection.state_changes import changes, reasons
from stateward.state.reader.key_evaluator import KeyEvaluator, Step, UnreadableError
from stateward.state.reader.keyed_variables import KEYS
from stateward.state.reader.retained_batches import Retained
from stateward.state.reader.state_reader import load, log_entries, readable
from stateward.state.reader.stores import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FOUND_DDL = "batch bigint, partition int, bucket int, seq bigint, state binary"
_FOUND_SCHEMA = pa.schema(
    [
        ("batch", pa.int64()),
        ("partition", pa.int32()),
        ("bucket", pa.int32()),
        ("seq", pa.int64()),
        ("state", pa.binary()),
    ]
)


def explain_keyed(
    spark: SparkSession,
    found: Retained,
    store: Store,
    key: str,
    past: HistorySource,
    *,
    evaluator: KeyEvaluator | None,
    buckets: int | None,
) -> KeyReport:
    """Report the current state of a key, its future changes, and its history.

    Args:
        spark: A session.
        found: The checkpoint and the batch.
        store: The operator's store.
        key: The key.
        past: The batches of the history.
        evaluator: The stream's logic; None if unknown.
        buckets: Number of buckets; None to search all of them.

    Raises:
        StateError: Spark cannot read the state.
    """
    bucket = None if buckets is None else bucket_of(key, buckets)
    with readable(spark, found):
        now = _states(log_entries(spark, found, store), key, bucket)
        before = []
        if past.base is not None:
            before = _states(log_entries(spark, found, store, batch_id=past.base), key, bucket)
        fed = [row for span in past.spans for row in _states(_feed(spark, found, store, span), key, bucket)]
    newest = max(now, key=lambda row: row["seq"], default=None)
    entries: tuple[Entry, ...] = ()
    coming: tuple[PendingTimer, ...] = ()
    timer_ms = None
    if newest is not None and newest["state"] != GONE:
        with readable(spark, found):
            timer_ms, schema = _head(spark, found, store, newest["bucket"])
        settled, coming = _outlook(evaluator, key, bytes(newest["state"]), schema, found.watermark_ms)
        entries = (_entry(store, key, newest, settled, coming),)
    history = _history(key, max(before, key=lambda row: row["seq"], default=None), fed, past)
    return KeyReport(entries, coming, tuple(history), timer_ms)


def _feed(spark: SparkSession, found: Retained, store: Store, span: tuple[int, int]) -> DataFrame:
    """The chunks that a range of batches appended, for `_states`."""
    return (
        load(spark, found, store, variable=LOG_NAME, changes=span)
        .where("change_type <> 'delete'")
        .selectExpr(
            "batch_id AS batch",
            "partition_id AS partition",
            "key.bucket AS bucket",
            "user_map_key.seq AS seq",
            "user_map_value.entries AS entries",
        )
    )


def _states(entries: DataFrame, key: str, bucket: int | None) -> list[dict[str, Any]]:
    """The states of a key in some chunks; the workers filter them, as a bucket may have many other keys."""
    if bucket is not None:
        entries = entries.where(f"bucket = {bucket}")
    if "batch" not in entries.columns:
        entries = entries.selectExpr("CAST(NULL AS bigint) AS batch", *entries.columns)
    rows = entries.select("batch", "partition", "bucket", "seq", "entries")
    return [row.asDict() for row in rows.mapInArrow(_finder(key), _FOUND_DDL).collect()]


def _finder(key: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def find(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = []
            for row in batch.to_pylist():
                state = decode_chunk(row.pop("entries")).get(key)
                if state is not None:
                    rows.append({**row, "state": state})
            if rows:
                yield pa.RecordBatch.from_pylist(rows, schema=_FOUND_SCHEMA)

    return find


def _entry(
    store: Store,
    key: str,
    row: dict[str, Any],
    settled: dict[str, Any] | None,
    coming: tuple[PendingTimer, ...],
) -> Entry:
    state = bytes(row["state"])
    return Entry(
        store.operator_id,
        store.operator,
        KEYS,
        row["partition"],
        row["bucket"],
        key,
        json.loads(state),
        settled,
        len(state),
        coming[0].at_ms if coming else None,
        coming[0].what if coming else "the stream's logic is unknown, or cannot read this state",
    )


def _outlook(
    evaluator: KeyEvaluator | None, key: str, state: bytes, schema: int, watermark_ms: int
) -> tuple[dict[str, Any] | None, tuple[PendingTimer, ...]]:
    """The state after processing the key, if that differs, and its future changes."""
    if evaluator is None:
        return None, ()
    reader = evaluator.reader()
    try:
        kept = reader.read(key, state, schema)
    except UnreadableError:
        return None, ()
    settled = evaluator.settled(key, kept, watermark_ms)
    coming = tuple(
        _step(step, json.loads(reader.encode(step.before)), json.loads(reader.encode(step.after)))
        for step in evaluator.future(key, kept, watermark_ms)
    )
    is_as_stored = settled == kept and schema == evaluator.version
    return None if is_as_stored else json.loads(reader.encode(settled)), coming


def _step(step: Step, before: dict[str, Any], after: dict[str, Any]) -> PendingTimer:
    is_end = step.after.is_empty
    what = f"{step.cause}: {reasons(before, None if is_end else after)}"
    rows = tuple((type(row).__name__, _fields(row)) for row in step.rows)
    return PendingTimer(step.at_ms, what, changes(before, after), rows, is_end)


def _fields(row: Any) -> dict[str, Any]:
    return dict(row._asdict())


def _head(spark: SparkSession, found: Retained, store: Store, bucket: int) -> tuple[int | None, int]:
    """Spark's timer of a bucket that has a state (ms since 1970 UTC), and its states' schema version."""
    heads = load(spark, found, store, variable=HEAD_NAME).where(f"key.bucket = {bucket}")
    [head] = heads.selectExpr("value.timer_ms AS timer_ms", "value.schema_version AS version").collect()
    return head["timer_ms"], head["version"]


def _history(
    key: str, base: dict[str, Any] | None, fed: list[dict[str, Any]], past: HistorySource
) -> Iterator[StateChange]:
    """The changes by batch; a state that only moved to another chunk is no change."""
    before = _value(base)
    # The rows of a batch stay in the order of its writes: a merge uses an earlier sequence number again.
    for row in sorted(fed, key=lambda row: row["batch"]):
        after = _value(row)
        if after == before:
            continue
        yield past.happening(row["batch"], KEYS, key, what=reasons(before, after), before=before, after=after)
        before = after


def _value(row: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if row is None else json.loads(bytes(row["state"]))
