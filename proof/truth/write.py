"""Writes the expected output as JSON lines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from proof.truth.expected import Expected
from stateward.contract.reading import iso


def write_expected(folder: Path, expected: Expected) -> dict[str, Any]:
    """Write a stream's rows, one file per table, in an order that depends only on the rows.

    Args:
        folder: Created if it does not exist.
        expected: The expected output.

    Returns:
        Its counts, and how many rows each table has.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tables = {**expected.tables, "dead_letters": expected.dead_letters, "late_events": expected.late_events}
    for table, rows in tables.items():
        _write_lines(folder / f"{table}.jsonl", rows)
    return {
        **expected.counts,
        "busiest_key": expected.busiest_key,
        "rows": {table: len(rows) for table, rows in expected.tables.items()},
    }


def _write_lines(file: Path, rows: Iterable[dict[str, Any]]) -> None:
    lines = sorted(
        json.dumps({name: _plain(value) for name, value in row.items()}, ensure_ascii=False) for row in rows
    )
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _plain(value: object) -> object:
    """A value for JSON: a time as ISO 8601, a decimal as text, bytes as their SHA-256."""
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
