"""Reports one key in a store of a built-in operator of Spark: its rows, their expiry, their history."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stateward.state.inspection.key_report import Entry, HistorySource, KeyReport, StateChange
from stateward.state.reader.native_variables import row_expiry, rows_as_text, rows_with_key
from stateward.state.reader.retained_batches import Retained
from stateward.state.reader.state_reader import load, readable
from stateward.state.reader.stores import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def explain_native(
    spark: SparkSession,
    found: Retained,
    store: Store,
    key: str,
    past: HistorySource,
) -> KeyReport:
    """Report the rows of a store that have the key in a text field, now and batch by batch.

    Args:
        spark: A session.
        found: The checkpoint and the batch.
        store: The store.
        key: The key, or an event's id.
        past: The batches of the history.

    Raises:
        StateError: Spark cannot read the store.
    """
    with readable(spark, found):
        frame = load(spark, found, store)
        now = _rows(store, frame, key)
        why = row_expiry(store, frame)[1]
        base = []
        if past.base is not None:
            base = _rows(store, load(spark, found, store, batch_id=past.base), key)
        fed = [
            row for span in past.spans for row in _rows(store, load(spark, found, store, changes=span), key)
        ]
    entries = tuple(
        Entry(
            store.operator_id,
            store.operator,
            store.name,
            row["partition"],
            None,
            row["key"],
            json.loads(row["value"]),
            None,
            len(row["value"].encode()),
            row["ends_ms"],
            why,
        )
        for row in sorted(now, key=lambda row: str(row["key"]))
    )
    return KeyReport(entries, (), tuple(_history(store, base, fed, past)))


def _rows(store: Store, frame: DataFrame, key: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in rows_as_text(store, rows_with_key(frame, key)).collect()]


def _history(
    store: Store, base: list[dict[str, Any]], fed: list[dict[str, Any]], past: HistorySource
) -> Iterator[StateChange]:
    values: dict[str, Any] = {row["key"]: json.loads(row["value"]) for row in base}
    # A batch may delete and insert a row in the feed; the inserted one is the result.
    order = sorted(fed, key=lambda row: (row["batch_id"], row["key"], row["change_type"] != "delete"))
    for row in order:
        before = values.get(row["key"])
        after = None if row["change_type"] == "delete" else json.loads(row["value"])
        if before == after:
            continue
        name = store.name if store.name != "default" else store.operator
        yield past.happening(
            row["batch_id"], name, row["key"], what=_what(before, after), before=before, after=after
        )
        values[row["key"]] = after


def _what(before: Any, after: Any) -> str:
    if before is None:
        return "the row was added"
    return "the row was removed" if after is None else "the row changed"
