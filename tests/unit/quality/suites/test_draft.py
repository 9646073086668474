"""A suite that is drafted from rows can be used, and is never written over another."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

from spark_jobs.user_sessions.declaration import SESSIONS
from stateward.cli.main import app
from stateward.quality.suites.draft import DraftError, write_draft
from stateward.quality.suites.suite import load_suite
from stateward.runtime.api.tables import arrow_schema

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def table_uri(tmp_path: Path) -> str:
    uri = f"file://{tmp_path}/data/tables/sessions"
    rows = [
        {
            "session_id": f"s{number}",
            "user_id": f"u{number // 2}",
            "started_at": START + timedelta(minutes=number),
            "ended_at": START + timedelta(minutes=number + number % 3),
            "duration_ms": number % 3 * 60_000,
            "event_count": 3,
            "last_event_type": None if number == 7 else f"t{number}",
            "close_reason": ("TIMEOUT", "ENDED")[number % 2],
            "closed_at": START + timedelta(minutes=number + 31),
        }
        for number in range(30)
    ]
    write_deltalake(uri, pa.Table.from_pylist(rows, schema=arrow_schema(SESSIONS)))
    return uri


def test_a_draft_says_what_is_so_and_can_be_used(table_uri: str, tmp_path: Path) -> None:
    file = tmp_path / "sessions.yaml"
    assert write_draft(table_uri, "sessions", file) == 30
    suite = load_suite(file, SESSIONS)
    by_name = {item.name: item for item in suite.expectations}
    assert by_name["columns_are_those_of_the_contract"].kwargs["column_set"] == arrow_schema(SESSIONS).names
    assert by_name["session_id_is_unique"].scope == "keys"
    assert by_name["event_count_is_present"].severity == "warn", "it follows from no declaration"
    assert by_name["close_reason_is_known"].kwargs["value_set"] == ["ENDED", "TIMEOUT"]
    assert by_name["duration_ms_is_not_negative"].kwargs["min_value"] == 0
    assert by_name["ended_at_is_not_before_started_at"].kwargs["column_A"] == "ended_at"
    assert by_name["rows_per_hour_are_as_usual"].baseline
    for not_so in ("last_event_type_is_present", "user_id_is_unique", "started_at_is_not_before_ended_at"):
        assert not_so not in by_name
    text = file.read_text()
    assert text.startswith("# A draft, from 30 rows of version 0")
    for declared in ("columns:", "session_id_is_unique", "user_id_is_present", "rows_are_only_added"):
        assert declared not in text


def test_a_draft_of_a_table_without_a_declaration_has_its_columns(table_uri: str, tmp_path: Path) -> None:
    write_draft(table_uri, "found", tmp_path / "found.yaml")
    names = {item.name for item in load_suite(tmp_path / "found.yaml").expectations}
    assert names >= {"columns_are_those_of_the_contract", "user_id_is_present", "rows_are_only_added"}


def test_a_draft_lists_no_values_of_persons(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/sessions"
    rows = [{"session_id": f"s{number % 2}", "user_id": f"u{number % 2}"} for number in range(30)]
    write_deltalake(uri, pa.Table.from_pylist(rows, schema=arrow_schema(SESSIONS)))
    write_draft(uri, "sessions", tmp_path / "sessions.yaml")
    text = (tmp_path / "sessions.yaml").read_text()
    assert "rows_per_hour_are_as_usual" in text and "u1" not in text and "s1" not in text


def test_a_draft_is_never_written_over_a_file(table_uri: str, tmp_path: Path) -> None:
    file = tmp_path / "sessions.yaml"
    file.write_text("by hand")
    with pytest.raises(DraftError, match="already exists"):
        write_draft(table_uri, "sessions", file)
    assert file.read_text() == "by hand"
    with pytest.raises(DraftError, match="found none"):
        write_draft(f"{table_uri}_none", "sessions", tmp_path / "other.yaml")


def test_the_command_finds_the_table_and_says_how_it_went(
    table_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path))
    command = ["quality", "draft", "sessions", "--file", str(tmp_path / "sessions.yaml")]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert load_suite(tmp_path / "sessions.yaml").table == "sessions"
    assert CliRunner().invoke(app, command).exit_code == 1
