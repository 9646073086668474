"""Rows that tasks write themselves are committed with those that they return, exactly once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from stateward.contract import storage
from stateward.maintenance.steps import vacuum
from stateward.runtime.api.tables import BATCH_COUNTS, DEAD_LETTERS, Table
from stateward.runtime.sink import row_files as module
from stateward.runtime.sink.output_rows import KIND_FILES, decode_rows, encode_rows, rows_of
from stateward.runtime.sink.row_files import FileTarget, RowFiles, TaskRows, row_files
from tests.unit.runtime.sink.test_sink import (
    ALERTS,
    LETTER,
    VISIT,
    VISITS,
    Batch,
    LeaseGoneError,
    Sinks,
    counts,
    lease_lost_at,
    part,
)

Part = tuple[str, int, bytes]
CURRENT = Table("current", "The last visit", VISITS.columns, current_by=("user_id",))
MANY = [(f"u{number}", *VISIT[1:]) for number in range(20)]


@pytest.fixture
def sinks(tmp_path: Path) -> Sinks:
    return Sinks(tmp_path)


def plan_of(sinks: Sinks, *tables: Table, returned: Sequence[str] = (), checkpoint: str = "") -> RowFiles:
    found = row_files(
        "visits",
        [(table, sinks.uri(table)) for table in tables],
        returned=returned,
        checkpoint_uri=checkpoint or sinks.uri(VISITS),
        tasks=2,
    )
    return replace(found, returned_bytes=0)


def task(sinks: Sinks, rows: Sequence[tuple[Any, ...]] = MANY, table: Table = VISITS) -> list[Part]:
    """The output of a task that writes all of its rows."""
    one = TaskRows(plan_of(sinks, table))
    half = len(rows) // 2
    parts = [found for some in (rows[:half], rows[half:]) for found in one.parts(table, rows_of(table, some))]
    one.close()
    return parts


def users(sinks: Sinks) -> list[str]:
    return sorted(row["user_id"] for row in sinks.rows(VISITS))


def data_files(sinks: Sinks) -> set[str]:
    return {name for name in storage.list_names(sinks.uri(VISITS)) if name != "_delta_log"}


def test_the_first_rows_of_a_table_are_returned_and_the_others_written(sinks: Sinks) -> None:
    rows = rows_of(VISITS, [VISIT])
    plan = replace(plan_of(sinks, VISITS, ALERTS), returned_bytes=2 * rows.nbytes)
    one = TaskRows(plan)

    kinds = [[kind for kind, _, _ in one.parts(VISITS, rows)] for _ in range(4)]
    assert kinds == [["visits"], ["visits"], [KIND_FILES], [KIND_FILES]]
    assert [kind for kind, _, _ in one.parts(ALERTS, rows_of(ALERTS, [("u",)]))] == ["alerts"]
    assert list(one.parts(VISITS, rows.slice(0, 0))) == []
    assert data_files(sinks) == set(), "few rows wait for more"
    one.close()
    assert len(data_files(sinks)) == 2, "the rows, and the list"


def test_packed_rows_are_passed_on_until_they_are_many(tmp_path: Path) -> None:
    packed = encode_rows(ALERTS, [("u",)])
    target = FileTarget(f"file://{tmp_path}", {"user_id": pa.string()}, ())
    one = TaskRows(RowFiles("visits", {"alerts": target}, len(packed)))

    assert one.packed(ALERTS, 1, packed) == ("alerts", 1, packed)
    kind, number, _ = one.packed(ALERTS, 1, packed)
    assert (kind, number) == (KIND_FILES, 1)


def test_without_a_plan_all_rows_are_returned() -> None:
    one = TaskRows()
    assert [kind for kind, _, _ in one.parts(ALERTS, rows_of(ALERTS, [("u",)] * 100_000))] == ["alerts"]
    one.close()


def test_rows_that_the_driver_needs_are_returned(sinks: Sinks) -> None:
    CURRENT.create(sinks.uri(CURRENT))

    tables = (VISITS, ALERTS, CURRENT)
    assert plan_of(sinks, *tables).targets.keys() == {"visits", "alerts"}, "merged by the driver"
    assert plan_of(sinks, *tables, returned=["alerts"]).targets.keys() == {"visits"}, "sent to Kafka"
    assert not plan_of(sinks, *tables, checkpoint="memory://c").targets, (
        "perhaps the disk of the driver alone"
    )


@pytest.mark.parametrize(("tasks", "each"), [(2, 16_000_000), (8, 4_000_000), (10_000, 256_000)])
def test_all_tasks_together_return_a_bounded_number_of_bytes(tasks: int, each: int) -> None:
    plan = row_files("visits", [], returned=(), checkpoint_uri="memory://c", tasks=tasks)
    assert plan.returned_bytes == each


def test_returned_and_written_rows_are_in_one_commit(sinks: Sinks) -> None:
    before = sinks.versions()["visits"]
    batch = Batch(part(VISITS, VISIT), *task(sinks), *task(sinks, [VISIT]), counts(accepted=22))

    sinks.sink()(batch, 3)

    assert users(sinks) == sorted(["u", *(row[0] for row in MANY), "u"])
    table = DeltaTable(sinks.uri(VISITS))
    assert (table.version(), len(table.file_uris())) == (before + 1, 3)
    assert int(table.history(1)[0]["operationMetrics"]["num_added_rows"]) == 22
    [counted] = sinks.rows(BATCH_COUNTS)
    assert (counted["rows_out"], json.loads(counted["rows_by_table"])["visits"]) == (22, 22)
    for file in table.file_uris():
        assert (
            pq.ParquetFile(file.removeprefix("file://")).metadata.row_group(0).column(0).compression == "ZSTD"
        )
    assert not [name for name in data_files(sinks) if name.endswith(".json")], "the lists are removed"


def test_a_file_has_a_bounded_number_of_rows(sinks: Sinks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FILE_BYTES", 1)
    sinks.sink()(Batch(*task(sinks)), 0)

    assert len(DeltaTable(sinks.uri(VISITS)).file_uris()) == 2
    assert users(sinks) == sorted(row[0] for row in MANY)


def test_rows_of_a_shared_table_have_the_marks_of_their_batch(
    sinks: Sinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        module, "_marks", lambda stream: {"stream": stream, "generation": "g1", "batch_id": 3}
    )
    sinks.sink()(Batch(*task(sinks, [LETTER, LETTER], DEAD_LETTERS), part(DEAD_LETTERS, LETTER)), 3)

    first, second, third = sinks.rows(DEAD_LETTERS)
    assert first == second == third
    assert (first["stream"], first["batch_id"], first["value"]) == ("visits", 3, b"\xff")
    assert all("/stream=visits/" in file for file in DeltaTable(sinks.uri(DEAD_LETTERS)).file_uris())


@pytest.mark.parametrize("call", range(1, 5))
def test_a_batch_that_was_cut_short_is_completed_with_new_files(sinks: Sinks, call: int) -> None:
    with pytest.raises(LeaseGoneError):
        sinks.sink(check_lease=lease_lost_at(call))(Batch(*task(sinks), part(ALERTS, ("u",))), 3)
    assert users(sinks) == (sorted(row[0] for row in MANY) if call > 2 else [])

    for _ in range(2):
        sinks.sink()(Batch(*task(sinks), part(ALERTS, ("u",))), 3)

    assert users(sinks) == sorted(row[0] for row in MANY)
    assert (len(sinks.rows(ALERTS)), len(sinks.rows(BATCH_COUNTS))) == (1, 1)


def test_files_of_other_attempts_are_not_committed_and_a_vacuum_removes_them(sinks: Sinks) -> None:
    lost = TaskRows(plan_of(sinks, VISITS))
    list(lost.parts(VISITS, rows_of(VISITS, MANY)))
    lost.close()
    task(sinks)  # an attempt whose result the driver did not take
    sinks.sink()(Batch(*task(sinks)), 0)
    assert users(sinks) == sorted(row[0] for row in MANY)
    assert len(data_files(sinks)) == 5, "three files, and two lists"

    table = DeltaTable(sinks.uri(VISITS))
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 hours"})
    assert vacuum(sinks.uri(VISITS), history=timedelta(0), pinned=(), dry_run=False) == "4 files removed"

    assert len(data_files(sinks)) == 1
    assert users(sinks) == sorted(row[0] for row in MANY)


def unlisted(parts: list[Part], sinks: Sinks) -> list[Part]:
    storage.delete(f"{sinks.uri(VISITS)}/{json.loads(parts[0][2])['list']}")
    return parts


def halved(parts: list[Part], sinks: Sinks) -> list[Part]:
    return [*parts, parts[0]]


@pytest.mark.parametrize(
    ("change", "found"), [(unlisted, "20 rows .* found 0"), (halved, "30 rows .* found 20")]
)
def test_a_result_without_its_files_is_refused(sinks: Sinks, change: Any, found: str) -> None:
    before = sinks.versions()
    with pytest.raises(OSError, match=f"stream visits, table visits: expected files with {found}"):
        sinks.sink()(Batch(*change(task(sinks), sinks), part(ALERTS, ("u",))), 0)
    assert sinks.versions() == before


@pytest.fixture
def bucket() -> Iterator[str]:
    """A storage that is not a disk."""
    yield "memory://bucket/tables/visits"
    storage.delete("memory://bucket")


def test_files_on_other_storage(bucket: str) -> None:
    kinds = {"user_id": pa.string()}
    one = TaskRows(RowFiles("visits", {"alerts": FileTarget(bucket, kinds, ("user_id",))}, 0))
    parts = list(one.parts(ALERTS, rows_of(ALERTS, [("u",), ("v",), ("u",)])))
    one.close()

    found = module.written_files("visits", [part[1:] for part in parts], {"alerts": bucket})["alerts"]
    assert found.rows == 3
    assert {action.partition_values["user_id"] for action in found.actions} == {"u", "v"}
    assert all(storage.exists(f"{bucket}/{action.path}") for action in found.actions)
    found.forget_lists()
    assert not [name for name in storage.sizes_below(bucket) if name.endswith(".json")]
    found.forget_lists()


def test_rows_come_back_as_they_were(sinks: Sinks) -> None:
    sinks.sink()(Batch(*task(sinks, [VISIT, ("v", None, None, None, None, None)])), 0)
    written = DeltaTable(sinks.uri(VISITS)).to_pyarrow_table().sort_by("user_id")
    returned = decode_rows(encode_rows(VISITS, [VISIT, ("v", None, None, None, None, None)]))
    assert written.to_pylist() == returned.to_pylist()
