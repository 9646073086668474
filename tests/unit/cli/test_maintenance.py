"""`stateward maintenance`, and which tables it finds."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from stateward.cli.main import app
from stateward.maintenance.tasks import UnknownTableError, tasks
from stateward.project.layout import Layout
from stateward.project.settings import Settings

NOW = datetime(2026, 1, 10, tzinfo=UTC)


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path))
    made = Layout.of()
    for table in ("sessions", "raw_events"):
        for n in range(20):
            write_deltalake(made.table_uri(table), pa.table({"n": [n]}), mode="append")
    return made


def test_all_tables_are_maintained_and_each_step_is_said(layout: Layout) -> None:
    done = CliRunner().invoke(app, ["maintenance"])

    assert done.exit_code == 0, done.output
    assert "20 files into 1" in done.output
    assert len(DeltaTable(layout.table_uri("sessions")).file_uris()) == 1
    rows = DeltaTable(layout.table_uri("table_maintenance")).to_pyarrow_table().to_pylist()
    assert {(row["table"], row["run_id"]) for row in rows} == {("raw_events", "cli"), ("sessions", "cli")}


def test_a_dry_run_of_one_table_leaves_all_as_it_is(layout: Layout) -> None:
    done = CliRunner().invoke(app, ["maintenance", "--dry-run", "--table", "sessions"])

    assert done.exit_code == 0, done.output
    assert "20 small files" in done.output
    assert "raw_events" not in done.output
    assert DeltaTable(layout.table_uri("sessions")).version() == 19
    assert not DeltaTable.is_deltatable(layout.table_uri("table_maintenance"))


def test_a_table_that_is_not_there_is_named_with_those_that_are(layout: Layout) -> None:
    with pytest.raises(UnknownTableError, match=r"raw_events, sessions, found sesions"):
        tasks(Settings(), ["sesions"], NOW)


@pytest.mark.parametrize(
    ("stream", "doubted"),
    [("user_sessions", {"sessions"}), ("gone_for_good", {"raw_events", "sessions"})],
)
def test_a_savepoint_in_doubt_concerns_its_streams_tables_and_all_if_nobody_knows_them(
    layout: Layout, stream: str, doubted: set[str]
) -> None:
    manifest = Path(f"{layout.savepoints_uri(stream)}/20260105T040000Z/manifest.json".removeprefix("file://"))
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{")

    assert {task.table for task in tasks(Settings(), [], NOW) if task.in_doubt} == doubted
