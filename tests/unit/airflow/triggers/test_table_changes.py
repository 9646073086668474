"""When a table is due for a validation: the decision, and what it is read from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from stateward.airflow.triggers.table_changes import ChangeReader, Changes, Fired, changes_data, should_fire

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
SETTLE, STALENESS = timedelta(seconds=10), timedelta(minutes=15)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def changes(first: float | None, last: float | None, version: int = 7, validated: int = -1) -> Changes:
    times = [None if value is None else ago(value) for value in (first, last)]
    return Changes("t1", version, times[0], times[1], validated)


@pytest.mark.parametrize(
    ("found", "fired", "due", "why"),
    [
        (changes(None, None), None, False, "nothing is new"),
        (changes(60, 9.9), None, False, "it has not settled"),
        (changes(60, 10), None, True, "it has been left alone for `settle`"),
        (changes(899, 1), None, False, "it changes still, and is not stale yet"),
        (changes(900, 1), None, True, "it changes still, and has waited for `max_staleness`"),
        (changes(60, 30), Fired("t1", 7, ago(20)), False, "this version was asked for"),
        (changes(60, 30), Fired("t1", 7, ago(9999)), False, "this version was asked for, however long ago"),
        (changes(60, 30), Fired("t1", 5, ago(20)), False, "a validation is in flight"),
        (changes(60, 30), Fired("t1", 5, ago(900)), True, "the validation in flight counts as lost"),
        (changes(60, 30, validated=5), Fired("t1", 5, ago(20)), True, "the one asked for has its results"),
        (changes(60, 30), Fired("t0", 7, ago(20)), True, "that was another table under the same name"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_should_fire(found: Changes, fired: Fired | None, due: bool, why: str) -> None:
    assert should_fire(found, fired, NOW, SETTLE, STALENESS) is due, why


def test_what_was_fired_survives_the_state_store_and_rubbish_does_not() -> None:
    fired = Fired("t1", 7, NOW)
    assert Fired.from_json(fired.to_json()) == fired
    for rubbish in (None, 7, {}, {"table_id": "t1", "version": "x", "at": "y"}):
        assert Fired.from_json(rubbish) is None


@pytest.mark.parametrize(
    ("operation", "mode", "rows", "expected"),
    [
        ("STREAMING UPDATE", "Append", "3", True),
        ("STREAMING UPDATE", "Append", "0", False),
        ("WRITE", "Append", "0", False),
        ("WRITE", "Overwrite", "0", True),
        ("OPTIMIZE", "", "12", False),
        ("CREATE TABLE", "", "0", False),
        ("CREATE TABLE AS SELECT", "", "3", True),
        ("DELETE", "", "0", True),
    ],
)
def test_which_commits_change_data(operation: str, mode: str, rows: str, expected: bool) -> None:
    commit = {
        "operation": operation,
        "operationParameters": {"mode": mode},
        "operationMetrics": {"numOutputRows": rows},
    }
    assert changes_data(commit) is expected


@pytest.fixture
def uris(tmp_path: Path) -> tuple[str, str]:
    return f"file://{tmp_path}/tables/sessions", f"file://{tmp_path}/tables/quality_validations"


def append(uri: str, *values: int) -> DeltaTable:
    write_deltalake(uri, pa.table({"n": pa.array(values, pa.int64())}), mode="append")
    return DeltaTable(uri)


def record_validation(uri: str, table: DeltaTable, version: int) -> None:
    row = {
        "stream": "s",
        "table": "sessions",
        "table_id": str(table.metadata().id),
        "covered_version": version,
    }
    write_deltalake(uri, pa.Table.from_pylist([row]), mode="append", partition_by=["stream"])


def test_the_reader_sees_commits_until_they_are_validated(uris: tuple[str, str]) -> None:
    table_uri, validations_uri = uris
    reader = ChangeReader(table_uri, validations_uri, "s", "sessions")
    assert reader.read(None) is None  # there is no table yet

    append(table_uri, 1)
    first = reader.read(None)
    assert first and (first.version, first.validated_version) == (0, -1)
    assert first.first_at == first.last_at is not None

    append(table_uri, 2)
    second = reader.read(None)
    assert second and second.version == 1
    assert second.first_at == first.first_at
    assert second.last_at and second.first_at and second.last_at > second.first_at

    record_validation(validations_uri, DeltaTable(table_uri), 1)
    third = reader.read(None)
    assert third and (third.validated_version, third.first_at) == (1, None)


def test_what_was_fired_for_is_not_new_and_the_next_commit_is(uris: tuple[str, str]) -> None:
    table_uri, validations_uri = uris
    table = append(table_uri, 1)
    reader = ChangeReader(table_uri, validations_uri, "s", "sessions")
    fired = Fired(str(table.metadata().id), 0, NOW)
    assert (found := reader.read(fired)) and found.first_at is None
    append(table_uri, 2)
    assert (found := reader.read(fired)) and found.first_at is not None


def test_results_of_an_older_table_of_that_name_do_not_count(uris: tuple[str, str]) -> None:
    table_uri, validations_uri = uris
    older = append(table_uri, 1)
    record_validation(validations_uri, older, 0)
    for path in sorted(Path(table_uri.removeprefix("file://")).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    append(table_uri, 1)
    found = ChangeReader(table_uri, validations_uri, "s", "sessions").read(None)
    assert found and found.validated_version == -1
    assert found.first_at is not None


def test_a_table_with_more_commits_than_are_read_is_overdue(
    uris: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stateward.airflow.triggers.table_changes.MAX_COMMITS_READ", 2)
    for number in range(4):
        append(uris[0], number)
    found = ChangeReader(*uris, "s", "sessions").read(None)
    assert found and should_fire(found, None, datetime.now(UTC), timedelta(hours=1), timedelta(hours=1))
