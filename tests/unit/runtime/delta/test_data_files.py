"""Data files of a table, and their entries in Delta's log."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from stateward.runtime.api.tables import Column, Table, arrow_schema
from stateward.runtime.delta.data_files import add_files, write_data_files

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
VALUES: dict[str, tuple[Any, Any, Any]] = {
    "string": ("a", "b", ("a", "b")),
    "long": (1, 2, (1, 2)),
    "double": (0.5, 1.5, (0.5, 1.5)),
    "boolean": (False, True, (False, True)),
    "date": (date(2026, 1, 1), date(2026, 1, 2), ("2026-01-01", "2026-01-02")),
    "timestamp": (AT, AT, ("2026-01-01T12:00:00.000Z", "2026-01-01T12:00:00.000Z")),
    "binary": (b"a", b"b", None),
    "array<string>": (["a"], ["b"], None),
    "decimal(38,9)": (Decimal("1.000000001"), Decimal("2.5"), None),
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_of_every_type_are_written_with_the_bounds_that_delta_can_hold(
    kind: str, tmp_path: Path
) -> None:
    low, high, bounds = VALUES[kind]
    table, uri = Table("t", "", (Column("a", kind, ""),)), f"file://{tmp_path}"
    table.create(uri)
    rows = pa.Table.from_pylist([{"a": high}, {"a": None}, {"a": low}], schema=arrow_schema(table))
    files = write_data_files(uri, rows, ())
    add_files(DeltaTable(uri), files, rows.num_rows, [])

    assert DeltaTable(uri).to_pyarrow_table()["a"].to_pylist() == [high, None, low]
    [file] = files
    stats = json.loads(file.stats)
    found = (stats["minValues"].get("a"), stats["maxValues"].get("a"))
    assert found == (bounds or (None, None))
    assert stats["nullCount"] == {"a": 1}
