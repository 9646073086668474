"""Going back to a savepoint: all of it or none, whatever happens in between."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from stateward.runtime.api.tables import DEAD_LETTERS, SHARED_TABLES
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.state.errors import StateError
from stateward.state.savepoints import tables
from stateward.state.savepoints.savepoint_catalog import SavepointCatalog, stamp
from tests.support.state.installed_stream import (
    ALERTS,
    NOW,
    OPERATOR,
    STREAM,
    Installed,
)
from tests.support.state.restore_child import restore_dies

SAVEPOINT = stamp(NOW)


def of_stream(rows: dict[str, list[dict[str, Any]]], stream: str) -> dict[str, list[dict[str, Any]]]:
    shared = {table.name for table in SHARED_TABLES}
    return {
        name: [row for row in found if row["stream"] == stream]
        for name, found in rows.items()
        if name in shared
    }


def test_checkpoint_and_tables_go_back_and_the_stream_goes_on(installed: Installed) -> None:
    before = installed.rows()
    assert len(before["device_alerts"]) == 3
    done = installed.restore()

    assert (done["generation"], done["finished"], done["records"]) == (2, None, 80 + 94)
    assert installed.generation.uri.endswith("/g0002")
    installed.generation.require_settled(STREAM)
    after = installed.rows()
    assert [row["device_id"] for row in after["device_alerts"]] == ["d0", "d1"]
    assert [row["runtime_ms"] for row in after["device_status"]] == [1]
    assert [row["batch_id"] for row in of_stream(after, STREAM)["batch_counts"]] == [0, 1]
    assert of_stream(after, "other") == of_stream(before, "other"), "another stream's rows are its own"
    assert installed.totals()["accepted"] == 22

    installed.run(2)
    assert installed.totals() == {**installed.totals(), "accepted": 33, "dead": 3, "late": 3, "rows_out": 6}
    again = installed.rows()
    for name in ("device_alerts", "device_status"):
        assert again[name] == before[name]
    new = [row["generation"] for row in of_stream(again, STREAM)["dead_letters"] if row["batch_id"] == 2]
    assert new == [done["query_id"]]


def test_an_installation_that_was_copied_to_another_place_goes_on_there(
    installed: Installed, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = installed.rows()
    folder = tmp_path_factory.mktemp("moved")
    shutil.copytree(installed.folder / "data", folder / "data")
    shutil.rmtree(installed.folder / "data")
    moved = Installed(folder)

    done = moved.restore()
    assert Checkpoint(done["checkpoint"]).is_clean()
    assert str(folder) in (moved.path / OPERATOR).read_text()
    assert str(installed.folder) not in (moved.path / OPERATOR).read_text()
    assert moved.totals()["accepted"] == 22
    moved.run(2)
    for name in ("device_alerts", "device_status"):
        assert moved.rows()[name] == before[name]


def test_a_stream_whose_checkpoints_are_lost_is_restored_from_another_storage(installed: Installed) -> None:
    before = installed.rows()
    kept = installed.folder / "another storage" / STREAM
    shutil.copytree(installed.folder / "data" / "savepoints" / STREAM, kept)
    shutil.rmtree(installed.folder / "data" / "savepoints")
    shutil.rmtree(installed.folder / "data" / "checkpoints")
    installed.catalog = SavepointCatalog(STREAM, f"file://{kept}")

    done = installed.restore()
    assert Checkpoint(done["checkpoint"]).is_clean()
    assert installed.totals()["accepted"] == 22
    installed.run(2)
    for name in ("device_alerts", "device_status"):
        assert installed.rows()[name] == before[name]


def test_the_new_checkpoint_is_another_query_that_goes_on_at_the_savepoint(installed: Installed) -> None:
    done = installed.restore()
    checkpoint = Checkpoint(done["checkpoint"])
    folder = installed.path
    assert checkpoint.query_id() == done["query_id"] != "query-1"
    assert checkpoint.is_clean()
    planned = checkpoint.planned(1)
    assert planned is not None
    assert planned.offsets["device_readings"] == {0: 20, 1: 6}
    assert checkpoint.earlier() == {"query-1": 1}
    for name in (".metadata.crc", "state/0/_metadata/v2/.0.crc"):
        assert not (folder / name).exists(), name
    assert (folder / "offsets/.0.crc").exists()
    assert f"file://{folder}/state/0/_stateSchema" in (folder / OPERATOR).read_text()
    assert not (folder / "commits/2").exists()


def test_a_savepoint_can_be_gone_back_to_again_and_one_made_later_too(installed: Installed) -> None:
    installed.restore()
    installed.run(2)
    later = installed.savepoint(NOW + timedelta(hours=1))
    installed.run(3)
    installed.restore(operation="op-2")
    assert installed.generation.number == 3
    assert installed.totals()["accepted"] == 22
    assert len(of_stream(installed.rows(), STREAM)["dead_letters"]) == 2

    installed.restore(later["savepoint"], operation="op-3")
    assert installed.totals()["accepted"] == 22, "what came after the earlier one was taken away"


def test_back_and_forth_counts_each_batch_once(installed: Installed) -> None:
    installed.restore()
    installed.run(2)
    later = installed.savepoint(NOW + timedelta(hours=1))
    installed.run(3)
    installed.restore(later["savepoint"], operation="op-2")
    assert installed.totals()["accepted"] == 33
    assert set(installed.checkpoint.earlier().values()) == {1, 2}
    installed.run(3)
    assert installed.totals()["accepted"] == 44


def test_a_batch_that_was_half_written_is_undone_as_well(installed: Installed) -> None:
    installed.plan(3)
    installed.append(ALERTS, {"device_id": "half"})
    installed.append(DEAD_LETTERS, {"stream": STREAM, "generation": "query-1", "batch_id": 3})
    installed.restore()
    assert len(installed.rows()["device_alerts"]) == 2
    assert len(of_stream(installed.rows(), STREAM)["dead_letters"]) == 2


def test_a_dry_run_changes_nothing(installed: Installed) -> None:
    before = snapshot(installed.folder)
    would = installed.restore(dry_run=True)
    assert (would["generation"], would["tables"]) == (2, {"device_alerts": 2, "device_status": 2})
    assert snapshot(installed.folder) == before


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def kafka_forgot(installed: Installed) -> None:
    installed.kafka.begins["device_readings"][1] = 7


def topic_recreated(installed: Installed) -> None:
    installed.kafka.ends["device_readings"] = {0: 19, 1: 100}


def partition_gone(installed: Installed) -> None:
    del installed.kafka.ends["device_readings"][1]


def vacuumed(installed: Installed) -> None:
    table = DeltaTable(installed.uri(ALERTS))
    table.optimize.compact()
    DeltaTable(installed.uri(ALERTS)).vacuum(0, dry_run=False, enforce_retention_duration=False)


def forgotten(installed: Installed) -> None:
    log = Path(installed.uri(ALERTS).removeprefix("file://")) / "_delta_log"
    DeltaTable(installed.uri(ALERTS)).create_checkpoint()
    for version in range(3):
        (log / f"{version:020}.json").unlink()


def table_recreated(installed: Installed) -> None:
    shutil.rmtree(installed.uri(ALERTS).removeprefix("file://"))
    ALERTS.create(installed.uri(ALERTS))


def table_gone(installed: Installed) -> None:
    shutil.rmtree(installed.uri(ALERTS).removeprefix("file://"))


def savepoint_broken(installed: Installed) -> None:
    next((installed.folder / "data" / "savepoints").rglob("offsets/1")).unlink()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            kafka_forgot,
            r"device_readings, partition 1: expected the record 6, found that Kafka begins with 7",
        ),
        (kafka_forgot, r"What there is instead: raw_events does not exist"),
        (topic_recreated, r"partition 0: expected the record 20, found the end at 19"),
        (partition_gone, r"partition 1: expected the record 6, found no such partition"),
        (vacuumed, r"device_alerts: 2 files of its version 2 were vacuumed away"),
        (forgotten, r"device_alerts: its version 2 is no longer on record"),
        (table_recreated, r"device_alerts: the table at .* was recreated"),
        (table_gone, r"device_alerts: expected a Delta table"),
        (savepoint_broken, r"is broken: offsets/1 is missing"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_touched(
    installed: Installed, spoil: Callable[[Installed], None], words: str
) -> None:
    spoil(installed)
    before = snapshot(installed.folder)
    with pytest.raises(StateError, match=words):
        installed.restore()
    assert snapshot(installed.folder) == before


def test_how_far_back_raw_events_reaches_is_said(installed: Installed) -> None:
    from spark_jobs.raw_events.declaration import RAW_EVENTS

    uri = f"file://{installed.folder}/data/tables/raw_events"
    RAW_EVENTS.create(uri)
    tables_of_config = installed.config.tables
    assert isinstance(tables_of_config, dict)
    tables_of_config["raw_events"] = uri
    for hours in (5, 29):
        at = NOW - timedelta(hours=hours)
        installed.append(
            RAW_EVENTS,
            {"topic": "device_readings", "record_timestamp": at, "date": at.date(), "partition": 0},
        )
    del tables_of_config["raw_events"]
    kafka_forgot(installed)
    with pytest.raises(
        StateError, match=r"has the records of device_readings from 2026-11-20T21:45:00\+00:00 on"
    ):
        installed.restore()


def test_a_concurrent_writer_of_a_shared_table_is_waited_for(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = iter([True, True])

    class Contended(DeltaTable):
        def delete(self, predicate: str | None = None, *args: Any, **options: Any) -> dict[str, Any]:
            if next(opened, False):
                raise CommitFailedError("another writer was first")
            return super().delete(predicate, *args, **options)

    monkeypatch.setattr(tables, "DeltaTable", Contended)
    installed.restore()
    assert len(of_stream(installed.rows(), STREAM)["dead_letters"]) == 2


def test_what_was_begun_is_finished_before_anything_else(installed: Installed) -> None:
    survived = next(
        n for n in range(99) if restore_dies(installed, n, "op-1") and installed.generation.pending
    )
    assert survived > 0
    with pytest.raises(
        StateError, match=r"operation op-1 has begun to go back to savepoint 20261122T024500Z"
    ):
        installed.restore("20260101T000000Z", operation="op-2")
    shutil.rmtree(installed.folder / "data" / "savepoints")
    would = installed.restore(operation="op-2", dry_run=True)
    assert installed.generation.pending is not None
    done = installed.restore(None, operation="op-2")
    assert would == done
    assert done["finished"] == "op-1"
    assert installed.totals()["accepted"] == 22, "the savepoint is no longer needed"


def test_tables_without_a_write_since_stay_as_they_are(installed: Installed) -> None:
    """Delta refuses to restore a table to the version that it has."""
    made = installed.savepoint(NOW + timedelta(hours=1))
    before = installed.rows()
    done = installed.restore(made["savepoint"])
    assert done["savepoint"] == made["savepoint"]
    assert installed.rows() == before
    installed.generation.require_settled(STREAM)
