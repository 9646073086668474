"""Compares tables, counts, processes and interventions with what is expected."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from proof.truth.expected import Expected
from stateward.project.layout import Layout
from tests.support.streams.oracle import difference, in_order
from tests.support.streams.traced import COUNTS, surplus_and_missing


def wrong_output(layout: Layout, stream: str, expected: Expected) -> dict[str, Any]:
    """The problems of a drained stream's output; empty if there are none."""
    wanted = {table: in_order(rows) for table, rows in expected.tables.items()}
    wrong = difference({table: in_order(rows_of(layout, table)) for table in wanted}, wanted)
    for table, rows in (("dead_letters", expected.dead_letters), ("late_events", expected.late_events)):
        if found := surplus_and_missing(rows_of(layout, table, stream), rows):
            wrong[table] = found
    batches = rows_of(layout, "batch_counts", stream)
    counted = {name: sum(row[name] for row in batches) for name in COUNTS}
    if counted != expected.counts:
        wrong["batch_counts"] = {"found": counted, "expected": expected.counts}
    twice = [name for name, count in Counter(_batch(row) for row in batches).items() if count > 1]
    return {**wrong, **({"batches twice": twice[:3]} if twice else {})}


def rows_of(layout: Layout, table: str, stream: str | None = None) -> list[dict[str, Any]]:
    """The stream's rows in a table; empty while there is no table."""
    uri = layout.table_uri(table)
    if not DeltaTable.is_deltatable(uri):
        return []
    only = None if stream is None else [("stream", "=", stream)]
    rows: list[dict[str, Any]] = DeltaTable(uri).to_pyarrow_table(filters=only).to_pylist()
    return rows


def wrong_balance(statuses: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Streams whose counters do not add up to the records read, or which are not drained."""
    wrong: dict[str, Any] = {}
    for stream, status in statuses.items():
        counted = sum(status.get(name) or 0 for name in ("accepted", "dead", "late", "duplicates"))
        if counted != status.get("delivered") or status.get("state") != "stopped":
            wrong[f"status of {stream}"] = {
                name: status.get(name) for name in ("state", "message", "delivered", *COUNTS)
            }
    return wrong


def sent_twice(files: Iterable[Path]) -> dict[str, list[str]]:
    """Messages that occur more than once in a file of JSON lines, by `message_id`; at most three a file."""
    found = {}
    for file in files:
        messages = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        ids = Counter(str(message["message_id"]) for message in messages)
        if twice := [one for one, count in ids.items() if count > 1]:
            found[file.name] = twice[:3]
    return found


def _batch(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["generation"], row["batch_id"]
