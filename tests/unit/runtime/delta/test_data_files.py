"""Data files of a table, and their entries in Delta's log."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from fsspec.implementations.local import LocalFileSystem

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


class Untold:
    """A file that cannot say where it is, as one on HDFS."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.closed = False

    def __enter__(self) -> Untold:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self.closed = True

    def write(self, content: Any) -> int:
        return int(self._file.write(content))

    def flush(self) -> None:
        self._file.flush()

    def tell(self) -> int:
        raise OSError("seek")


def test_a_file_that_cannot_say_where_it_is_has_its_size_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = LocalFileSystem.open

    def untold(self: Any, path: str, mode: str = "rb", **options: Any) -> Any:
        file = opened(self, path, mode, **options)
        return Untold(file) if mode == "wb" else file

    monkeypatch.setattr(LocalFileSystem, "open", untold)
    [written] = write_data_files(f"file://{tmp_path}", pa.table({"a": list(range(1000))}), ())
    assert written.size == (tmp_path / written.path).stat().st_size
    assert pq.read_table(tmp_path / written.path).num_rows == 1000
