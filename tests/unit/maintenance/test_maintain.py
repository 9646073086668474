"""Maintenance of tables: fewer files, the same rows, and every version with a reference."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from stateward.contract.names import TABLE_MAINTENANCE
from stateward.maintenance import record, steps, summary
from stateward.maintenance.maintain import Maintained, Task, maintain
from stateward.maintenance.policy import Policy
from stateward.maintenance.retention import Need
from stateward.maintenance.table_files import most_small_in_a_partition
from stateward.runtime.api.tables import BATCH_COUNTS
from stateward.runtime.sink.ledger import BatchCounts, Ledger
from stateward.runtime.sink.output_rows import COUNT_NAMES
from stateward.runtime.sink.table_commits import TableWrite
from stateward.state.savepoints.manifest import TableAt
from stateward.state.savepoints.tables import tables_at, take_back, why_not_back

# Nothing is kept for its age, so that tests need not wait for any.
AT_ONCE = Policy.model_construct(history=timedelta(0), small_files=4)
# What is being written is not kept for its age either, then, so beside a writer it has to be more.
SOON = Policy.model_construct(history=timedelta(seconds=3), small_files=4)


def maintained(task: Task, now: datetime | None = None, *, dry_run: bool = False) -> Maintained:
    """Maintain a table; Delta stamps its commits and files by the wall clock."""
    return maintain(task, now=now or datetime.now(UTC), dry_run=dry_run, report=lambda step, what: None)


class Visits:
    """A table that gets a file with each row."""

    def __init__(self, folder: Path, *, partition_by: str | None = None) -> None:
        self.uri = f"file://{folder}/visits"
        self._partition_by = partition_by
        self._next = count()
        schema = pa.schema([("n", pa.int64()), ("day", pa.date32())])
        DeltaTable.create(self.uri, schema, partition_by=partition_by, configuration={**AT_ONCE.properties})

    def add(self, files: int, day: date = date(2026, 1, 8)) -> None:
        for _, n in zip(range(files), self._next, strict=False):
            write_deltalake(
                self.uri,
                pa.table({"n": [n], "day": [day]}),
                mode="append",
                partition_by=self._partition_by,
                commit_properties=CommitProperties(app_transactions=[Transaction("g:visits", n)]),
            )

    def rows(self, version: int | None = None) -> list[int]:
        return sorted(DeltaTable(self.uri, version=version).to_pyarrow_table()["n"].to_pylist())

    def now(self) -> DeltaTable:
        return DeltaTable(self.uri)

    def maintain(self, *needs: Need, in_doubt: str = "", dry_run: bool = False) -> Maintained:
        return maintained(Task("visits", self.uri, AT_ONCE, needs, in_doubt), dry_run=dry_run)


@pytest.fixture
def visits(tmp_path: Path) -> Visits:
    return Visits(tmp_path)


def log_of(visits: Visits) -> list[str]:
    return sorted(path.name for path in Path(visits.uri.removeprefix("file://"), "_delta_log").iterdir())


def test_many_files_become_one_and_nothing_else_changes(visits: Visits) -> None:
    visits.add(12)

    done = visits.maintain()

    assert (done.before.files, done.after.files) == (12, 1)
    assert (done.before.disk_files, done.after.disk_files) == (12, 1)
    assert visits.rows() == list(range(12))
    assert done.steps["compaction"] == "12 files into 1"
    again = visits.maintain()
    assert again.steps["compaction"].startswith("not needed")
    assert again.after.version == done.after.version, "with nothing to do nothing is committed"


def test_what_takes_the_place_of_others_is_on_the_disk_before_they_go(
    visits: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits.add(12)
    synced: list[list[str]] = []
    monkeypatch.setattr(os, "sync", lambda: synced.append(log_of(visits)))
    visits.maintain()

    after_compaction, before_removal = synced
    assert sum(name.endswith(".json") for name in after_compaction) == 14
    assert any(name.endswith(".checkpoint.parquet") for name in before_removal)
    assert set(after_compaction) <= set(before_removal), "nothing was removed before"


def test_a_batch_that_was_written_is_still_known_when_its_log_entry_is_gone(visits: Visits) -> None:
    visits.add(12)
    visits.maintain()
    # The log is cut off at the checkpoint that the first run has made.
    done = visits.maintain()

    assert done.after.log_entries < done.before.log_entries
    assert "00000000000000000011.json" not in log_of(visits)
    assert visits.now().transaction_version("g:visits") == 11


def test_a_day_that_is_not_over_is_left_alone(tmp_path: Path) -> None:
    visits = Visits(tmp_path, partition_by="day")
    for day in (8, 9):
        visits.add(6, date(2026, 1, day))

    just_past = datetime(2026, 1, 10, 0, 30, tzinfo=UTC)
    maintained(Task("visits", visits.uri, AT_ONCE), just_past)

    # It is half an hour past midnight: what was late of the ninth may still be on its way.
    days = [uri.split("day=")[1][:10] for uri in visits.now().file_uris()]
    assert (days.count("2026-01-08"), days.count("2026-01-09")) == (1, 6)


def test_a_savepoint_can_be_gone_back_to_after_everything_else_is_gone(visits: Visits) -> None:
    visits.add(8)
    then = tables_at("s", {"visits": visits.uri})["visits"]
    assert then.version is not None
    visits.add(8)

    done = visits.maintain(Need(then.version, "savepoint 20260101T040000Z of s"))
    visits.add(8)
    visits.maintain(Need(then.version, "savepoint 20260101T040000Z of s"))

    assert done.kept.because == "savepoint 20260101T040000Z of s"
    assert why_not_back("visits", then) is None
    take_back("s", then, lambda: 1)
    assert visits.rows() == list(range(8))


def test_without_its_savepoint_a_version_goes(visits: Visits) -> None:
    visits.add(8)
    then = TableAt(visits.uri, visits.now().version(), str(visits.now().metadata().id))
    visits.add(8)

    visits.maintain()

    assert why_not_back("visits", then) is not None, "or the test above proves nothing"


def test_a_validated_version_reads_as_it_did(visits: Visits) -> None:
    visits.add(5)
    validated = [(version, visits.rows(version)) for version in (2, 4)]

    for _ in range(4):
        visits.add(5)
        visits.maintain(*(Need(version, "a validation") for version, _ in validated))

    assert [(version, visits.rows(version)) for version, _ in validated] == validated


def test_in_doubt_nothing_is_removed_but_files_are_put_together(visits: Visits) -> None:
    visits.add(6)

    done = visits.maintain(in_doubt="savepoint x cannot be read")

    assert (done.after.files, done.after.disk_files) == (1, 7)
    assert set(done.steps) == {"properties", "compaction", "removal"}
    assert visits.rows(4) == [0, 1, 2, 3]


def test_a_dry_run_changes_nothing(visits: Visits) -> None:
    visits.add(6)
    before = log_of(visits)

    done = visits.maintain(dry_run=True)

    assert log_of(visits) == before
    assert done.steps["compaction"] == "6 small files in a closed partition"
    assert done.before == done.after


def test_a_version_that_is_lost_already_is_named_and_stops_nothing(visits: Visits) -> None:
    visits.add(8)
    visits.maintain()
    visits.maintain()

    done = visits.maintain(Need(1, "savepoint a"))

    assert done.steps["no longer on record"] == "version 1 (savepoint a)"


def test_who_changes_the_same_files_first_wins_and_the_step_is_left_for_later(
    visits: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits.add(6)

    def overtaking(table: DeltaTable, *args: Any) -> int:
        DeltaTable(visits.uri).delete("n = 3")
        return most_small_in_a_partition(table, *args)

    monkeypatch.setattr(steps, "most_small_in_a_partition", overtaking)

    assert visits.maintain().steps["compaction"] == steps.GAVE_WAY
    assert visits.rows() == [0, 1, 2, 4, 5]


def test_a_writer_at_full_speed_never_meets_a_conflict(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uri = f"file://{tmp_path}/batch_counts"
    BATCH_COUNTS.create(uri)
    ledger = Ledger(uri, "visits", "g")
    batches = 240
    task = Task("batch_counts", uri, SOON)
    maintained(task)

    def write() -> None:
        for batch in range(batches):
            ledger.append(BatchCounts(batch, dict.fromkeys(COUNT_NAMES, 1), {"rows": 1}, 0), 1, "r")

    # It is the writer that says so when a commit had to be tried again.
    with caplog.at_level("INFO", "stateward.runtime.delta.commit_retry"), ThreadPoolExecutor(1) as pool:
        written = pool.submit(write)
        runs = [maintained(task) for _ in _until(written.done)]
        written.result()

    assert len(runs) > 2
    assert [entry.getMessage() for entry in caplog.records] == []
    rows = DeltaTable(uri).to_pyarrow_table()["batch_id"].to_pylist()
    assert sorted(rows) == list(range(batches)), "each batch once"
    assert DeltaTable(uri).transaction_version("g:batch_counts") == batches - 1
    assert any(run.steps.get("compaction") for run in runs), "files were put together meanwhile"
    # How many the last batches left depends on the clock; fewer than a compaction is for stay.
    assert maintained(task).after.files < SOON.small_files


def test_a_writer_tries_again_when_a_property_was_changed_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"file://{tmp_path}/batch_counts"
    BATCH_COUNTS.create(uri)
    ledger = Ledger(uri, "visits", "g")
    write, properties = TableWrite._commit, iter([{"delta.checkpointInterval": "50"}])

    def overtaken(self: TableWrite, *args: Any) -> None:
        for changed in properties:
            DeltaTable(uri).alter.set_table_properties(changed)
        write(self, *args)

    monkeypatch.setattr(TableWrite, "_commit", overtaken)
    ledger.append(BatchCounts(0, dict.fromkeys(COUNT_NAMES, 1), {"rows": 1}, 0), 1, "r")

    assert DeltaTable(uri).to_pyarrow_table()["batch_id"].to_pylist() == [0]


def _until(done: Any) -> Iterator[None]:
    while not done():
        yield


def test_each_run_leaves_a_row_and_a_line(visits: Visits, tmp_path: Path) -> None:
    visits.add(6)
    now = datetime.now(UTC)
    done = maintained(Task("visits", visits.uri, AT_ONCE), now)

    record.append(f"file://{tmp_path}/{TABLE_MAINTENANCE}", done, "maintenance/run 1")

    [row] = DeltaTable(f"file://{tmp_path}/{TABLE_MAINTENANCE}").to_pyarrow_table().to_pylist()
    assert (row["table"], row["run_id"], row["at"]) == ("visits", "maintenance/run 1", now)
    assert (row["files_before"], row["files_after"], row["small_files_after"]) == (6, 1, 1)
    assert "compaction: 6 files into 1" in row["steps"]
    head, line = summary.lines([summary.cells(done)])
    assert head.startswith("table")
    assert "6 → 1" in line
