"""Measures the state of a keyed stream: its keys, bucket by bucket in the workers, and Spark's store."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stateward.runtime.keyed.state_log import HEAD_NAME, LOG_NAME
from stateward.state.reader.key_evaluator import KeyEvaluator, UnreadableError
from stateward.state.reader.measures import LargeKey, Load, Timers, Variable, largest, loads, timers
from stateward.state.reader.retained_batches import Retained
from stateward.state.reader.state_reader import (
    load,
    log_entries,
    per_bucket,
    readable,
    stored_bytes,
    versions,
)
from stateward.state.reader.stores import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS = "keys"
TIMERS = "timers"

_FAMILY_MEANING = {
    LOG_NAME: "chunks of the buckets' logs: older states of a key beside the newest",
    HEAD_NAME: "start and end of each bucket's log",
    TIMERS: "Spark's timers, one for each waiting bucket",
}
_SUMMARY_DDL = "summary string"
_SUMMARY_SCHEMA = pa.schema([("summary", pa.string())])

_Summarise = Callable[[int, int, dict[str, tuple[int, bytes]]], list[dict[str, Any]]]


@dataclass(frozen=True)
class KeyedState:
    """A keyed operator's variables, and the number of states that the current logic cannot read."""

    variables: tuple[Variable, ...]
    unreadable: int


def keyed_variables(
    spark: SparkSession,
    found: Retained,
    store: Store,
    *,
    evaluator: KeyEvaluator | None,
    buckets: int | None,
    most: int,
) -> KeyedState:
    """Measure the operator of a keyed stream.

    Args:
        spark: A session.
        found: The checkpoint and the batch.
        store: The operator's store.
        evaluator: The stream's logic, which determines the timers; None if unknown.
        buckets: Number of buckets; None if unknown.
        most: Number of the largest keys to report.

    Raises:
        StateError: Spark cannot read the state.
    """
    with readable(spark, found):
        schemas = versions(spark, found, store) if evaluator is not None else {}
        summarise = _summariser(evaluator, schemas, found.watermark_ms, most)
        summaries = _summaries(log_entries(spark, found, store), summarise)
        stored = stored_bytes(spark, found, store).collect()
        spark_timers = _spark_timers(spark, found, store)
    families: dict[str, list[Load]] = defaultdict(list)
    for row in stored:
        name = TIMERS if row["family"].startswith("$") else row["family"]
        families[name].append(Load(row["partition"], row["entries"], row["key_bytes"], row["value_bytes"]))
    variables = [_keys(store, summaries, buckets, most)]
    for name in (LOG_NAME, HEAD_NAME, TIMERS):
        variables.append(
            _family(store, name, families[name], timers=spark_timers if name == TIMERS else None)
        )
    return KeyedState(tuple(variables), sum(summary["unreadable"] for summary in summaries))


def live_keys(spark: SparkSession, found: Retained, store: Store, batch_id: int) -> int:
    """Number of keys in the state of another retained batch, from the buckets' heads."""
    heads = load(spark, found, store, variable=HEAD_NAME, batch_id=batch_id)
    return int(heads.selectExpr("coalesce(sum(value.live), 0) AS live").collect()[0]["live"])


def _summaries(entries: DataFrame, summarise: _Summarise) -> list[dict[str, Any]]:
    """A summary of each bucket, computed by the workers, so that the driver collects one row per bucket."""
    frame = per_bucket(entries, _SUMMARY_DDL, summarise, _SUMMARY_SCHEMA)
    return [json.loads(row["summary"]) for row in frame.collect()]


def _summariser(
    evaluator: KeyEvaluator | None, schemas: Mapping[int, int], watermark_ms: int, most: int
) -> _Summarise:
    def summarise(partition: int, bucket: int, states: dict[str, tuple[int, bytes]]) -> list[dict[str, Any]]:
        due = {} if evaluator is None else wakes(evaluator, schemas[bucket], states)
        known = [due_ms for due_ms in due.values() if due_ms is not None]
        large = (
            LargeKey(key, partition, bucket, 1, len(key.encode()) + len(state), due.get(key))
            for key, (_, state) in states.items()
        )
        summary = {
            "partition": partition,
            "bucket": bucket,
            "keys": len(states),
            "key_bytes": sum(len(key.encode()) for key in states),
            "value_bytes": sum(len(state) for _, state in states.values()),
            "timers": None if evaluator is None else asdict(timers(known, watermark_ms)),
            "unreadable": 0 if evaluator is None else len(states) - len(due),
            "largest": [asdict(key) for key in largest(large, most)],
        }
        return [{"summary": json.dumps(summary)}]

    return summarise


def wakes(
    evaluator: KeyEvaluator, schema: int, states: dict[str, tuple[int, bytes]]
) -> dict[str, int | None]:
    """Time of the next timer by key; a state that the logic cannot read is left out."""
    reader = evaluator.reader()
    found = {}
    for key, (_, state) in states.items():
        try:
            found[key] = evaluator.wake_ms(key, reader.read(key, state, schema))
        except UnreadableError:
            continue
    return found


def _keys(store: Store, summaries: list[dict[str, Any]], buckets: int | None, most: int) -> Variable:
    parts = [
        (
            summary["partition"],
            Load(
                summary["bucket"],
                summary["keys"],
                summary["key_bytes"],
                summary["value_bytes"],
                _timers(summary["timers"]),
            ),
        )
        for summary in summaries
    ]
    by_bucket = [part for _, part in parts]
    by_partition = [
        Load(partition, part.keys, part.key_bytes, part.value_bytes, part.timers) for partition, part in parts
    ]
    due = [part.timers for part in by_bucket if part.timers is not None]
    keys = sum(part.keys for part in by_bucket)
    key_bytes = sum(part.key_bytes for part in by_bucket)
    value_bytes = sum(part.value_bytes for part in by_bucket)
    return Variable(
        store.operator_id,
        store.operator,
        KEYS,
        "the newest state of each key in the log, as JSON",
        keys,
        key_bytes,
        value_bytes,
        "json",
        loads(by_partition, range(store.partitions)),
        loads(by_bucket, range(buckets or 0)),
        sum(due, Timers()) if due else None,
        largest((LargeKey(**key) for summary in summaries for key in summary["largest"]), most),
        keys,
        key_bytes + value_bytes,
    )


def _timers(document: dict[str, Any] | None) -> Timers | None:
    return None if document is None else Timers(**{**document, "bins": tuple(document["bins"])})


def _family(store: Store, name: str, parts: list[Load], *, timers: Timers | None) -> Variable:
    # Spark stores each timer twice, by key and by time.
    rows = sum(part.keys for part in parts) if timers is None else timers.count
    return Variable(
        store.operator_id,
        store.operator,
        name,
        _FAMILY_MEANING[name],
        rows,
        sum(part.key_bytes for part in parts),
        sum(part.value_bytes for part in parts),
        "stored",
        loads(parts, range(store.partitions)),
        timers=timers,
    )


def _spark_timers(spark: SparkSession, found: Retained, store: Store) -> Timers:
    rows = load(spark, found, store, timers=True).select("expiration_timestamp_ms").collect()
    return timers([row["expiration_timestamp_ms"] for row in rows], found.watermark_ms)
