"""After a power loss at any sync of a batch the tables are repaired and the batch is completed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from stateward.runtime.api.tables import BATCH_COUNTS, SHARED_TABLES, Table
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.checkpoint_repair import repair_logs
from stateward.runtime.checkpoint.generations import Generation, current, make_current
from stateward.runtime.delta.commit_retry import app_id
from stateward.runtime.delta.table_repair import TornTableError, repair
from stateward.runtime.sink.ledger import Ledger
from stateward.runtime.sink.output_rows import rows_of
from stateward.runtime.sink.row_files import TaskRows, row_files
from stateward.runtime.sink.sink import BatchSink
from stateward.runtime.sink.table_commits import TableWrite
from tests.support.power_loss import Disk
from tests.unit.runtime.lease.test_lease import Clock, lease
from tests.unit.runtime.sink.test_sink import LATE, LETTER, VISIT, VISITS, Batch, at, counts, part

CURRENT = Table("current", "The last visit", VISITS.columns, current_by=("user_id",))
LARGE = Table("large", "A visit whose row a task writes", VISITS.columns)
TABLES = (VISITS, CURRENT, LARGE, *SHARED_TABLES[:2])
PLAN = "v1\n{}\n{}"
STATE = "state/0/0/default/4.changelog"


def batch(second: int) -> Batch:
    visit = (VISIT[0], second * 1_000, *VISIT[2:])
    return Batch(
        part(VISITS, visit),
        part(CURRENT, visit, ("v", *visit[1:])),
        part(SHARED_TABLES[0], LETTER),
        part(SHARED_TABLES[1], LATE),
        counts(accepted=1, dead=1, late=1),
    )


def written(folder: Path, second: int) -> Batch:
    """The output of a task that writes its row into a file."""
    plan = row_files(
        "visits",
        [(LARGE, f"file://{folder}/large")],
        returned=(),
        checkpoint_uri=f"file://{folder}/checkpoint",
        tasks=1,
    )
    task = TaskRows(replace(plan, returned_bytes=0))
    parts = list(task.parts(LARGE, rows_of(LARGE, [(VISIT[0], second * 1_000, *VISIT[2:])])))
    task.close()
    return Batch(*parts)


def start(folder: Path) -> Callable[[Batch, int], None]:
    """Start a driver; returns the function that writes a batch."""
    checkpoint = f"file://{folder}/checkpoint"
    repair_logs(checkpoint)
    last = Checkpoint(checkpoint).last_committed()
    for table in (*TABLES, BATCH_COUNTS):
        uri = f"file://{folder}/{table.name}"
        repair(uri, app_id("g1", table.name), last)
        table.create(uri)

    def run(rows: Batch, batch_id: int) -> None:
        for path, text in {f"offsets/{batch_id}": PLAN, STATE: "state"}.items():
            file = folder / "checkpoint" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        sink = BatchSink(
            stream="visits",
            run_id="run-1",
            outputs=[(table, f"file://{folder}/{table.name}", table in SHARED_TABLES) for table in TABLES],
            generation="g1",
            ledger=Ledger(f"file://{folder}/batch_counts", "visits", "g1"),
            check_lease=lambda: 5,
            note_timers=lambda timers: None,
            note_times=lambda times: None,
            checkpoint_uri=checkpoint,
        )
        sink(Batch(*rows.parts, *written(folder, batch_id).parts), batch_id)

    return run


def rows(folder: Path) -> dict[str, list[Any]]:
    columns = dict.fromkeys(("visits", "current", "large"), "started_at")
    found = {}
    for table in (*TABLES, BATCH_COUNTS):
        column = columns.get(table.name, "batch_id")
        there = DeltaTable(f"file://{folder}/{table.name}").to_pyarrow_table(columns=[column])
        found[table.name] = sorted(there[column].to_pylist())
    return found


WHOLE = {
    "visits": [at(0), at(1_000)],
    "large": [at(0), at(1_000)],
    "current": [at(1_000), at(1_000)],
    "dead_letters": [0, 1],
    "late_events": [0, 1],
    "batch_counts": [0, 1],
}


@pytest.fixture
def disk(tmp_path: Path) -> tuple[Path, Disk]:
    """A stream that has committed batch 0."""
    home = tmp_path / "home"
    home.mkdir()
    start(home)(batch(0), 0)
    commits = home / "checkpoint" / "commits"
    commits.mkdir()
    (commits / "0").write_text("v1\n{}")
    return home, Disk(home)


def test_a_batch_is_completed_after_a_power_loss_at_any_moment(
    disk: tuple[Path, Disk], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, recorded = disk
    with monkeypatch.context() as patch:
        recorded.record(patch)
        commit = TableWrite.commit

        def seen(write: TableWrite, check: Callable[[], int]) -> None:
            commit(write, check)
            recorded.look("commit")

        patch.setattr(TableWrite, "commit", seen)
        start(home)(batch(1), 1)
        recorded.look("Spark commits")

    assert len(recorded.views) > 12, "six commits and three syncs, and the possible remains of each"
    for number, view in enumerate([*recorded.views, *recorded.last]):
        left = tmp_path / str(number)
        view.put(left)
        if view.when == "Spark commits":
            assert (left / "checkpoint" / STATE).read_text() == "state", view.how
            assert (left / "checkpoint" / "offsets" / "1").read_text() == PLAN, view.how
            assert rows(left) == WHOLE, view.how
            (left / "checkpoint" / "commits" / "1").write_text("")
        planned = any(
            found.name == "1" and content for found, content in view.files.items() if "offsets" in found.parts
        )
        run = start(left)
        if not planned:
            assert all(0 in there or at(0) in there for there in rows(left).values()), "batch 0 is complete"
            assert rows(left)["visits"] == rows(left)["large"] == [at(0)], "no row of a batch without a plan"
        run(batch(1), 1)
        assert rows(left) == WHOLE, (view.when, view.how)


def test_a_file_that_is_not_whole_under_a_committed_batch_is_refused(disk: tuple[Path, Disk]) -> None:
    home, _ = disk
    [file] = DeltaTable(f"file://{home}/visits").file_uris()
    Path(file).write_bytes(Path(file).read_bytes()[:-7])

    with pytest.raises(
        TornTableError, match=r"expected the files of version 1 to be whole, found that part-.*"
    ):
        start(home)


def test_a_torn_checkpoint_of_the_log_is_left_out(disk: tuple[Path, Disk]) -> None:
    home, _ = disk
    DeltaTable(f"file://{home}/visits").create_checkpoint()
    [checkpoint] = (home / "visits" / "_delta_log").glob("*.checkpoint.parquet")
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])

    start(home)(batch(1), 1)

    assert rows(home) == WHOLE


def test_the_pointer_to_the_generation_that_counts_survives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    root = home / "checkpoints" / "s"
    root.mkdir(parents=True)
    make_current(Generation(f"file://{root}", 1, "g0001"), "first", at(0))
    disk = Disk(home)
    with monkeypatch.context() as patch:
        disk.record(patch)
        (root / "g0002").mkdir()
        (root / "g0002" / "metadata").write_text("{}")
        make_current(Generation(f"file://{root}", 2, "g0002"), "restore", at(0))
        disk.look("done")

    numbers = []
    for number, view in enumerate(disk.views):
        view.put(tmp_path / str(number))
        numbers.append(current(f"file://{tmp_path}/{number}/checkpoints/s").number)
        assert numbers[-1] == 1 or view.files[Path("checkpoints/s/g0002/metadata")] == b"{}"
    assert numbers == sorted(numbers)
    pointer = Path("checkpoints/s/current.json")
    assert all(json.loads(view.files[pointer])["generation"] == 2 for view in disk.last)


def test_a_lease_is_taken_after_a_power_loss_and_its_epoch_never_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    clock = Clock()
    disk = Disk(home)
    with monkeypatch.context() as patch:
        disk.record(patch)
        lease(home, "first", clock=clock).acquire()
        disk.look("first")
        first = disk.last
        clock.now += timedelta(hours=1)
        second = lease(home, "second", clock=clock)
        second.acquire()
        disk.look("second")
        acquired = disk.last
        second.renew()
        disk.look("renewed")
    clock.now += timedelta(hours=1)

    known = {"first": 2, "second": 3, "renewed": 3}
    for number, view in enumerate([*disk.views, *first, *acquired, *disk.last]):
        left = tmp_path / str(number)
        view.put(left)
        epoch = lease(left, "third", clock=clock).acquire().epoch
        assert epoch >= known.get(view.when, 1), (view.when, view.how)


def test_a_document_of_state_is_json_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stateward.state.operation.journal import Journal

    home = tmp_path / "home"
    home.mkdir()
    disk = Disk(home)
    disk.record(monkeypatch)
    Journal(f"file://{home}/operations/s/o1/journal.json", lambda: at(0)).decide({"generation": 2})
    disk.look("decided")

    for view in disk.last:
        assert json.loads(view.files[Path("operations/s/o1/journal.json")])["plan"] == {"generation": 2}
