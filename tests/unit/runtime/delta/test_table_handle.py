"""A table that is kept open sees commits of others, and notices that the table was deleted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError

from stateward.runtime.delta import delta_tables
from stateward.runtime.delta.delta_tables import TableHandle

_ROW = pa.table({"number": [1]})


def _write(table: str | DeltaTable, batch: int, app: str = "mine") -> None:
    commit = CommitProperties(app_transactions=[Transaction(app, batch)])
    write_deltalake(table, _ROW, mode="append", commit_properties=commit)


def test_it_sees_its_own_commits_and_those_of_others(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    _write(uri, 0)
    kept = TableHandle(uri)
    for batch in range(1, 4):
        _write(kept.current(), batch)
        _write(uri, batch, "another")
    table = kept.current()
    assert (table.version(), table.transaction_version("mine"), table.transaction_version("another")) == (
        (6, 3, 3)
    )
    assert table.to_pyarrow_table().num_rows == 7


def test_it_is_opened_again_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_tables, "_COMMITS_BETWEEN_OPENINGS", 3)
    uri = str(tmp_path / "table")
    _write(uri, 0)
    kept = TableHandle(uri)
    seen: list[DeltaTable] = []
    for batch in range(1, 8):
        table = kept.current()
        if not any(table is one for one in seen):
            seen.append(table)
        _write(table, batch)
    assert len(seen) == 3
    assert DeltaTable(uri).version() == 7


def test_a_table_that_is_gone_is_said_to_be_gone(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    _write(uri, 0)
    kept = TableHandle(uri)
    _write(kept.current(), 1)
    shutil.rmtree(uri)
    with pytest.raises(TableNotFoundError):
        kept.current()
    _write(uri, 0)
    assert kept.current().version() == 0, "created again"
