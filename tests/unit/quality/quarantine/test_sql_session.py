"""SQL over the tables: which views there are, what `<table>_valid` leaves out, and what is a statement."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from stateward.contract.process_output import JobExit
from stateward.quality.quarantine.plain_row_hash import hasher_of, row_hash
from stateward.quality.quarantine.row_hash import SEED
from stateward.quality.quarantine.sql_session import SqlSession, main, statements
from stateward.quality.quarantine.valid_rows import NotValidError

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROWS = pa.table({"user_id": ["ann", "bob"], "event_count": pa.array([3, -1], pa.int64())})
TABLES = {"sessions": "user_sessions", "alerts": "fraud_watch"}


def written(folder: Path, name: str, row: dict[str, Any]) -> None:
    write_deltalake(f"{folder}/{name}", pa.Table.from_pylist([row]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table of two rows, of which the second is in quarantine."""
    kinds = [hasher_of(kind) for kind in ROWS.schema.types]
    of_table = {"stream": "user_sessions", "table": "sessions", "suite": "sessions", "table_id": "t"}
    held = {
        "from_version": 0,
        "table_version": 0,
        "run_id": "a",
        "name": "n",
        "severity": "critical",
        "row": json.dumps({"user_id": "bob", "event_count": -1}),
        "row_hash": row_hash(["bob", -1], kinds, SEED),
        "quarantined_at": AT,
    }
    seen = {"from_version": 0, "table_version": 0, "run_id": "a", "is_range": True, "validated_at": AT}
    write_deltalake(f"{tmp_path}/sessions", ROWS)
    written(tmp_path, "quarantine", of_table | held)
    written(tmp_path, "quality_validations", of_table | seen)
    return tmp_path


def rows(session: SqlSession, statement: str) -> list[tuple[Any, ...]]:
    found = session.run(statement)
    assert found is not None
    return found.fetchall()


def test_a_table_is_a_view_and_its_valid_rows_are_another(folder: Path) -> None:
    session = SqlSession(str(folder), TABLES)
    assert session.tables == ["sessions"], "alerts has not been written yet"
    assert rows(session, "SELECT user_id FROM sessions ORDER BY 1") == [("ann",), ("bob",)]
    assert rows(session, "SELECT user_id FROM sessions_VALID") == [("ann",)]


def test_valid_rows_of_a_table_that_was_not_validated_are_refused(folder: Path) -> None:
    write_deltalake(f"{folder}/alerts", ROWS)
    session = SqlSession(str(folder), TABLES)
    with pytest.raises(NotValidError, match="fraud_watch: alerts has not been validated"):
        session.run("SELECT * FROM alerts_valid")


def test_a_wrong_query_is_duckdbs_error(folder: Path) -> None:
    with pytest.raises(duckdb.Error, match="sesions"):
        SqlSession(str(folder), TABLES).run("SELECT * FROM sesions")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT\n\n1;\nSELECT 2;\n", ["SELECT\n1;\n", "SELECT 2;\n"]),
    ],
)
def test_a_statement_ends_with_a_semicolon_or_with_the_text(text: str, found: list[str]) -> None:
    assert list(statements(io.StringIO(text), prompts=False)) == found


def test_the_command_prints_rows_and_fails_with_its_last_query(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = json.dumps({"tables_uri": str(folder), "tables": TABLES})
    assert main([given, "SELECT max(event_count) AS most FROM sessions"]) == JobExit.DONE
    assert "most" in capsys.readouterr().out
    assert main([given, "SELECT 1", "SELECT"]) == JobExit.FAILED


def test_a_table_that_is_not_there_is_answered_with_those_that_are(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = ", ".join(SqlSession(str(folder), TABLES).tables)
    assert main([json.dumps({"tables_uri": str(folder), "tables": TABLES}), "FROM nothing"]) == JobExit.FAILED
    assert f"Tables of {folder}: {known}." in capsys.readouterr().err
    empty = json.dumps({"tables_uri": str(tmp_path / "empty"), "tables": TABLES})
    assert main([empty, "FROM sessions"]) == JobExit.FAILED
    assert "none yet; a stream's first batch makes them" in capsys.readouterr().err
