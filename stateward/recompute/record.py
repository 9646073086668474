"""The table `reconciliations`: one row for each table of each reconciliation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from stateward.contract import names
from stateward.contract.requests import KeptOutcome
from stateward.runtime.api.tables import Column, Table, arrow_schema

RECONCILIATIONS = Table(
    names.RECONCILIATIONS,
    "What one reconciliation has found in one table of a stream",
    (
        Column("stream", "string", "The stream"),
        Column("table", "string", "The table that was compared"),
        Column("range_from", "timestamp", "First time of the range, by the column that says when a row came"),
        Column("range_to", "timestamp", "Its end, which is not part of it"),
        Column("run_id", "string", "The Airflow run: <dag id>/<run id>/<try>"),
        Column("equal", "boolean", "Whether not one row differs"),
        Column("rows_compared", "long", "Rows of either side"),
        Column("rows_different", "long", "Those that differ; one that has other values counts once"),
        Column("rows_wrong", "long", "Those of them that can only be an error"),
        Column("judged_from", "timestamp", "From when on a difference can only be an error; null: never"),
        Column("judged_to", "timestamp", "Up to when; null: never"),
        Column("kinds", "string", "How many rows differ in which way, as JSON"),
        Column("notes", "array<string>", "Limits of the result, as text"),
        Column("differences_uri", "string", "Delta table with each row that differs, and its events"),
        Column("differences_version", "long", "Its version; the next reconciliation replaces what is in it"),
        Column("reconciled_at", "timestamp", "When"),
    ),
    partition_by=("stream",),
)


def write_record(record: KeptOutcome, report: Mapping[str, Any], at: datetime) -> None:
    """Append the results of each table in a report, once per run id.

    Args:
        record: The table, and the run id.
        report: Report of `recompute`, with comparison.
        at: When it was made, aware.
    """
    # deltalake, not Spark: it commits a few rows in a tenth of a second instead of four seconds.
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    app_id = f"reconcile/{report['stream']}/{record.run_id}"
    RECONCILIATIONS.create(record.uri)
    if DeltaTable(record.uri).transaction_version(app_id) is not None:
        return
    rows = [dict(_row(record, report, entry, at)) for entry in report["tables"]]
    write_deltalake(
        record.uri,
        pa.Table.from_pylist(rows, schema=arrow_schema(RECONCILIATIONS)),
        mode="append",
        # Makes a second writer of the same run fail instead of appending twice.
        commit_properties=CommitProperties(app_transactions=[Transaction(app_id, 1)]),
    )


def _row(
    record: KeptOutcome, report: Mapping[str, Any], entry: Mapping[str, Any], at: datetime
) -> Iterator[tuple[str, Any]]:
    judged = report["sure"] or {"from": None, "to": None}
    yield "stream", report["stream"]
    yield "table", entry["table"]
    yield "range_from", _time(report["from"])
    yield "range_to", _time(report["to"])
    yield "run_id", record.run_id
    yield "equal", entry["equal"]
    yield "rows_compared", entry["compared"]
    yield "rows_different", entry["different"]
    yield "rows_wrong", entry["sure"]
    yield "judged_from", _time(judged["from"])
    yield "judged_to", _time(judged["to"])
    yield "kinds", json.dumps(entry["kinds"])
    yield "notes", report["notes"]
    yield "differences_uri", entry["differences_uri"]
    yield "differences_version", entry["differences_version"]
    yield "reconciled_at", at


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
