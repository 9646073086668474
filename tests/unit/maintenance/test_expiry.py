"""Rows with raw records go when they are old, by the day, and what counts them stays true."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_jobs.raw_events.declaration import RAW_EVENTS
from stateward.maintenance.expiry import expire
from stateward.maintenance.maintain import Task, maintain
from stateward.maintenance.policy import Policy, PolicyError, load_policies
from stateward.quality.quarantine.quarantine import QUARANTINE
from stateward.quality.tables.table_log import REMOVAL, read_commits
from stateward.runtime.api.tables import BATCH_COUNTS, DEAD_LETTERS, LATE_EVENTS, Table, arrow_schema

NOW = datetime(2026, 3, 10, 14, tzinfo=UTC)
WEEK = timedelta(days=7)


def write(folder: Path, table: Table, rows: list[dict[str, Any]]) -> str:
    uri = f"file://{folder}/{table.name}"
    table.create(uri)
    write_deltalake(uri, pa.Table.from_pylist(rows, schema=arrow_schema(table)), mode="append")
    return uri


def rows_of(uri: str, column: str) -> list[Any]:
    return sorted(DeltaTable(uri).to_pyarrow_table()[column].to_pylist())


def day(number: int, hour: int = 12) -> datetime:
    return datetime(2026, 3, number, hour, tzinfo=UTC)


def test_raw_events_lose_whole_dates(tmp_path: Path) -> None:
    rows = [
        {"topic": "t", "partition": 0, "offset": number, "date": day(number).date(), "value": b"v"}
        for number in (1, 2, 3, 9)
    ]
    uri = write(tmp_path, RAW_EVENTS, rows)
    told = expire("raw_events", uri, max_age=WEEK, now=NOW, dry_run=True)
    assert (told, rows_of(uri, "offset")) == ("2 days, up to 2026-03-02", [1, 2, 3, 9])
    expire("raw_events", uri, max_age=WEEK, now=NOW, dry_run=False)
    assert rows_of(uri, "offset") == [3, 9], "the 3rd at 12 is older than a week, and its day is not over"
    version = DeltaTable(uri).version()
    assert expire("raw_events", uri, max_age=WEEK, now=NOW + timedelta(hours=9), dry_run=False) == "none"
    assert DeltaTable(uri).version() == version, "the same day changes nothing again"
    [commit] = read_commits(uri, "raw_events", version, version)
    assert (commit.operation, commit.removed, commit.forgets) == (REMOVAL, (), False)


@pytest.mark.parametrize("table", [DEAD_LETTERS, LATE_EVENTS], ids=lambda table: table.name)
def test_shared_tables_lose_whole_batches_by_the_time_they_were_committed(
    table: Table, tmp_path: Path
) -> None:
    """A late event may be of long ago: it is not old where it has just come."""
    counts = [
        {"stream": stream, "generation": "g", "batch_id": batch, "committed_at": day(batch)}
        for stream in ("one", "two")
        for batch in (1, 2, 4)
    ]
    write(tmp_path, BATCH_COUNTS, counts)
    marks = [
        {"stream": stream, "generation": "g", "batch_id": batch, "offset": batch, "record_timestamp": day(1)}
        for stream in ("one", "two", "three")
        for batch in (1, 1, 2, 4, 5)
    ]
    uri = write(tmp_path, table, marks)
    assert expire(table.name, uri, max_age=WEEK, now=NOW, dry_run=True) == "6 rows"
    assert expire(table.name, uri, max_age=WEEK, now=NOW, dry_run=False) == "6 rows"
    left = {(row["stream"], row["batch_id"]) for row in DeltaTable(uri).to_pyarrow_table().to_pylist()}
    assert left == {("one", 4), ("one", 5), ("two", 4), ("two", 5), *(("three", n) for n in (1, 2, 4, 5))}


def test_quarantine_loses_contents_and_still_holds_rows_back(tmp_path: Path) -> None:
    rows = [
        {
            "stream": "s",
            "table": "t",
            "row_hash": str(n),
            "row": '{"a": 1}',
            "origin": "{}",
            "quarantined_at": day(n),
        }
        for n in (1, 9)
    ]
    uri = write(tmp_path, QUARANTINE, rows)
    assert expire("quarantine", uri, max_age=WEEK, now=NOW, dry_run=False) == "contents of 1 rows"
    found = {
        row["row_hash"]: (row["row"], row["origin"]) for row in DeltaTable(uri).to_pyarrow_table().to_pylist()
    }
    assert found == {"1": ("{}", None), "9": ('{"a": 1}', "{}")}
    assert expire("quarantine", uri, max_age=WEEK, now=NOW, dry_run=False) == "none"


def test_maintenance_does_it_for_these_tables_alone(tmp_path: Path) -> None:
    row = {"topic": "t", "partition": 0, "offset": 1, "date": day(1).date()}
    uri = write(tmp_path, RAW_EVENTS, [row])
    policy = Policy(max_age=WEEK)

    def steps(table: str) -> dict[str, str]:
        return maintain(Task(table, uri, policy), now=NOW, dry_run=True, report=lambda step, what: None).steps

    assert steps("raw_events")["rows"] == "1 days, up to 2026-03-01"
    assert "rows" not in steps("sessions")


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        (
            "tables:\n  sessions:\n    max_age: 9d\n",
            "maintenance.yaml:3: tables.sessions.max_age",
            "raw_events",
        ),
        ("defaults:\n  max_age: 2h\n", "maintenance.yaml:2: defaults.max_age", "at least 1d"),
    ],
)
def test_an_age_that_cannot_be_kept_is_refused(tmp_path: Path, text: str, place: str, words: str) -> None:
    file = tmp_path / "maintenance.yaml"
    file.write_text(text)
    with pytest.raises(PolicyError) as caught:
        load_policies(file)
    assert place in str(caught.value) and words in str(caught.value)
