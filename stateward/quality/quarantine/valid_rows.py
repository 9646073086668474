"""Valid rows for readers without Spark, and the check whether a table may be read at all."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from stateward.contract.names import QUALITY_RESULTS, QUALITY_VALIDATIONS, QUARANTINE
from stateward.quality.quarantine.plain_row_hash import hasher_of, row_hash
from stateward.quality.quarantine.quarantine_rules import quarantined
from stateward.quality.quarantine.row_hash import SEED

if TYPE_CHECKING:
    import pyarrow as pa


class NotValidError(RuntimeError):
    """A table must not be read; the text says why, and what to do."""


@dataclass(frozen=True)
class ValidTable:
    """A table as it may be read.

    Attributes:
        version: the newest validated Delta version.
        validated_at: when that was, UTC.
        warnings: expectations that failed without being critical.
        docs_path: the report's page below the Data Docs folder.
    """

    version: int
    validated_at: datetime
    warnings: tuple[str, ...]
    docs_path: str


def require_valid(
    tables_uri: str, stream: str, table: str, *, now: datetime, max_age: timedelta | None = None
) -> ValidTable:
    """Return up to which version a table is validated, or refuse: for batch jobs that no asset starts.

    Args:
        tables_uri: the folder of all tables, `<STATEWARD_DATA>/tables`.
        stream: the stream that writes the table.
        table: the table's name.
        now: the time, aware.
        max_age: how old the newest validation may be; None is any age.

    Raises:
        NotValidError: the newest validation found something critical, is too old, or there is none.
    """
    rows = _rows(f"{tables_uri.rstrip('/')}/{QUALITY_VALIDATIONS}", stream, table)
    if not rows:
        raise NotValidError(f"{stream}: {table} has not been validated. Run the DAG quality_{stream}.")
    newest = max(rows, key=lambda row: (row["table_version"], row["validated_at"]))
    where = f"the validation of versions {newest['from_version']} to {newest['table_version']}"
    failed = _failed(tables_uri, stream, table, newest["run_id"])
    if critical := sorted(name for name, severity in failed.items() if severity == "critical"):
        raise NotValidError(
            f"{stream}: {table} is not to be read: {where} found critical failures: {', '.join(critical)}."
            f" See {newest['docs_path']} in Data Docs, and docs/runbook.md, *Rows are in quarantine*."
        )
    if max_age is not None and now - newest["validated_at"] > max_age:
        raise NotValidError(
            f"{stream}: expected {table} to be validated within {max_age}, found {where} of"
            f" {newest['validated_at']:%Y-%m-%d %H:%M:%S} UTC to be the newest. Run the DAG quality_{stream}."
        )
    warnings = tuple(sorted(name for name, severity in failed.items() if severity != "critical"))
    return ValidTable(newest["table_version"], newest["validated_at"], warnings, newest["docs_path"])


def valid_rows(tables_uri: str, stream: str, table: str, version: int | None = None) -> pa.Table:
    """Return the rows of a table that are not held back, as `<table>_valid` shows them.

    Args:
        tables_uri: the folder of all tables.
        stream: the stream that writes the table.
        table: the table's name.
        version: a Delta version; None is the newest.

    Raises:
        NotValidError: the table has not been validated.
    """
    from deltalake import DeltaTable

    folder = tables_uri.rstrip("/")
    validations = _rows(f"{folder}/{QUALITY_VALIDATIONS}", stream, table)
    if not validations:
        raise NotValidError(f"{stream}: {table} has not been validated. Run the DAG quality_{stream}.")
    entries = _rows(f"{folder}/{QUARANTINE}", stream, table)
    rows = DeltaTable(f"{folder}/{table}", version=version).to_pyarrow_table()
    hashes = quarantined(entries, validations)
    return without(rows, hashes, [entry for entry in entries if entry["row_hash"] in hashes])


def without(rows: pa.Table, hashes: Collection[str], entries: Collection[Mapping[str, Any]]) -> pa.Table:
    """Return the rows but those with one of the hashes.

    Args:
        rows: of the table, with all of its columns.
        hashes: of rows that are held back.
        entries: their entries in quarantine; only rows like these are hashed, because hashing in Python is
            slow.
    """
    import pyarrow as pa

    if not hashes:
        return rows
    suspects = _suspects(rows, entries)
    plain = [as_counted(column.take(suspects)) for column in rows.columns]
    kinds = [hasher_of(column.type) for column in plain]
    columns = [column.to_pylist() for column in plain]
    found = {
        index
        for index, *values in zip(suspects.to_pylist(), *columns, strict=True)
        if row_hash(values, kinds, SEED) in hashes
    }
    keep = pa.array([index not in found for index in range(rows.num_rows)], pa.bool_())
    return rows.filter(keep)


def _suspects(rows: pa.Table, entries: Collection[Mapping[str, Any]]) -> pa.Array:
    """Indices of the rows whose texts are those of a row in quarantine; masked texts cannot be compared."""
    import pyarrow as pa
    import pyarrow.compute as pc

    known = [json.loads(entry["row"]) for entry in entries]
    likely = pa.array([True] * rows.num_rows, pa.bool_())
    for field in rows.schema:
        if pa.types.is_string(field.type):
            values = [row.get(field.name) for row in known]
            if not any(value is not None and value.startswith(_MASKED) for value in values):
                alike = pc.is_in(rows[field.name], pa.array(values, pa.string()))
                likely = pc.and_(likely, alike)
    return pc.indices_nonzero(likely)


_MASKED = "masked-"


def as_counted(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with its times as Spark counts them: microseconds, and days."""
    import pyarrow as pa

    is_list = pa.types.is_list(column.type)
    kind = column.type.value_type if is_list else column.type
    steps: list[pa.DataType] = []
    if pa.types.is_timestamp(kind):
        steps = [pa.timestamp("us", tz=kind.tz), pa.int64()]
    elif pa.types.is_date(kind):
        steps = [pa.date32(), pa.int32()]
    for step in steps:
        column = column.cast(pa.list_(step) if is_list else step)
    return column


def _failed(tables_uri: str, stream: str, table: str, run_id: str) -> dict[str, str]:
    rows = _rows(f"{tables_uri.rstrip('/')}/{QUALITY_RESULTS}", stream, table, run_id)
    return {row["name"]: row["severity"] for row in rows if not row["success"]}


def _rows(uri: str, stream: str, table: str, run_id: str | None = None) -> list[dict[str, Any]]:
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(uri):
        return []
    wanted = [("stream", "=", stream), ("table", "=", table)]
    if run_id is not None:
        wanted.append(("run_id", "=", run_id))
    return list(DeltaTable(uri).to_pyarrow_table(filters=wanted).to_pylist())
