"""Savepoints: what is in one, when it is good, and which are removed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from stateward.contract import storage
from stateward.state.errors import StateError
from stateward.state.files import checkpoint_copy
from stateward.state.savepoints import manifest as manifests
from stateward.state.savepoints.savepoint_catalog import Savepoint, stamp
from stateward.state.verbs import savepoint as savepoint_verb
from stateward.state.verbs.prune import Policy, PruneVerb, to_remove
from stateward.state.verbs.verify import verify
from tests.support.state.installed_stream import (
    NOW,
    OPERATOR,
    SCHEMA_FILE,
    STREAM,
    TICKS,
    Installed,
    Stage,
    quiet,
)

DAY = timedelta(days=1)


def two_batches(made: Installed) -> None:
    made.run(0)
    made.run(1)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("savepoint"), two_batches)


def folder(installed: Installed, savepoint: str = stamp(NOW)) -> Path:
    return installed.folder / "data" / "savepoints" / STREAM / savepoint


def test_a_savepoint_says_all_that_is_needed_to_go_back_to_it(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(savepoint_verb, "code_version", lambda: {"commit": "c0ffee"})
    made = installed.savepoint()
    assert (made["savepoint"], made["last_batch"], made["generation"]) == ("20261122T024500Z", 1, 1)

    found = installed.catalog.require_good(None)
    assert found.next == {"device_readings": {0: 20, 1: 6}, TICKS: {0: 2}}
    assert found.initial == {"device_readings": {0: 0, 1: 0}, TICKS: {0: 0}}
    assert (found.query_id, found.last_batch, found.watermark_ms, found.partitions) == ("query-1", 1, 1000, 2)
    assert (found.stream, found.reason, found.code["commit"]) == (STREAM, "before an upgrade", "c0ffee")
    assert found.configuration["logic"]["offline_after_ms"] == 3_600_000
    assert found.tables["device_alerts"].version == 2
    assert found.tables["device_alerts"].batches is None
    assert found.tables["dead_letters"].batches == {"query-1": 1}
    schemas = {schema["path"]: schema for schema in found.schemas}
    assert set(schemas) == {SCHEMA_FILE, OPERATOR}
    assert "base64" in schemas[SCHEMA_FILE]
    assert "transformWithState" in schemas[OPERATOR]["text"]
    assert {file.path for file in found.files} >= {"metadata", ".metadata.crc", "offsets/1", "commits/1"}
    assert installed.catalog.look(made["savepoint"]).is_good


def test_a_copy_does_not_lead_back_to_the_original(installed: Installed) -> None:
    installed.savepoint()
    copy = folder(installed) / "checkpoint"
    text = (copy / OPERATOR).read_text()
    assert f"file://{copy}/{SCHEMA_FILE}" in text
    assert str(installed.path) not in text
    assert not (copy / "state/0/_metadata/v2/.0.crc").exists()


def test_a_dry_run_writes_nothing(installed: Installed) -> None:
    would = installed.savepoint(dry_run=True)
    assert would["files"] > 0
    assert installed.catalog.ids() == []


def test_a_pending_batch_is_refused(installed: Installed) -> None:
    installed.plan(2)
    with pytest.raises(StateError, match=r"device_lifecycle: .* found batch 2 planned .* Start the stream"):
        installed.savepoint()
    assert installed.catalog.ids() == []


def test_a_stream_that_never_ran_is_refused(tmp_path: Path) -> None:
    installed = Installed(tmp_path)
    (installed.path / "metadata").unlink()
    with pytest.raises(StateError, match=r"expected a checkpoint in .*g0001, found none"):
        installed.savepoint()


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_one_byte_is_enough_and_the_file_is_named(installed: Installed) -> None:
    installed.savepoint()
    copy = folder(installed) / "checkpoint"
    for file in sorted(path for path in copy.rglob("*") if path.is_file()):
        flip(file)
        [looked] = verify(installed.catalog, None, quiet)
        assert looked.problems == (f"{file.relative_to(copy)} has different content",)
        flip(file)
    assert installed.catalog.look(stamp(NOW)).is_good


def test_what_is_missing_or_added_or_cut_off_is_named(installed: Installed) -> None:
    installed.savepoint()
    copy = folder(installed) / "checkpoint"
    (copy / "commits/1").unlink()
    (copy / "commits/7").write_text("")
    (copy / "offsets/1").write_text("v1")
    assert set(installed.catalog.look(stamp(NOW)).problems) == {
        "commits/1 is missing",
        "commits/7 was added",
        f"offsets/1 has 2 bytes, expected {(installed.path / 'offsets/1').stat().st_size}",
    }
    with pytest.raises(StateError, match=r"savepoint 20261122T024500Z is broken: commits/1 is missing"):
        installed.catalog.require_good(stamp(NOW))
    with pytest.raises(StateError, match="expected a good savepoint"):
        installed.catalog.require_good(None)


def test_a_manifest_that_was_changed_or_is_missing_is_noticed(installed: Installed) -> None:
    installed.savepoint()
    file = folder(installed) / manifests.NAME
    document = json.loads(file.read_text())
    document["next"]["device_readings"]["0"] = 21
    file.write_text(json.dumps(document))
    assert installed.catalog.look(stamp(NOW)).problems == ("manifest.json does not match its checksum",)
    flip(file)
    assert not installed.catalog.look(stamp(NOW)).is_good
    file.unlink()
    [problem] = installed.catalog.look(stamp(NOW)).problems
    assert problem.startswith("it has no manifest.json")


def test_a_copy_that_dies_is_never_listed_as_good(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = len(checkpoint_copy.paths_in(installed.generation.uri)) - 1  # but for one checksum of Hadoop's
    copy = checkpoint_copy.copy_file
    for survived in range(files):
        left = iter(range(survived))

        def dying(*arguments: str, left: Iterator[int] = left) -> checkpoint_copy.CopiedFile:
            if next(left, None) is None:
                raise OSError("killed")
            return copy(*arguments)

        monkeypatch.setattr(checkpoint_copy, "copy_file", dying)
        now = NOW + timedelta(seconds=survived)
        with pytest.raises(OSError, match="killed"):
            installed.savepoint(now)
        looked = [installed.catalog.look(savepoint) for savepoint in installed.catalog.ids()]
        assert [one.savepoint for one in looked if one.is_good] == []


def test_a_checkpoint_in_the_root_is_copied_without_the_generations_beside_it(tmp_path: Path) -> None:
    (tmp_path / "g0002").mkdir()
    for name in ("metadata", "current.json", "g0002/metadata"):
        (tmp_path / name).write_text("x")
    assert checkpoint_copy.paths_in(f"file://{tmp_path}") == ["metadata"]


def test_savepoints_may_lie_in_any_storage(installed: Installed) -> None:
    target = "memory://savepoints/one"
    copied = checkpoint_copy.copy_checkpoint(installed.generation.uri, target)
    assert checkpoint_copy.problems_of(target, copied) == []
    assert checkpoint_copy.paths_in(target) == [file.path for file in copied]
    storage.delete(target)
    assert len(checkpoint_copy.problems_of(target, copied)) == len(copied)


def shown(days: float, *, good: bool = True) -> Savepoint:
    problems = () if good else ("broken",)
    return Savepoint(stamp(NOW - days * DAY), "", None, problems)


@pytest.mark.parametrize(
    ("savepoints", "newest", "days", "gone"),
    [
        ([shown(9), shown(8), shown(7), shown(1)], 2, 3, [9, 8]),
        ([shown(9), shown(8), shown(7), shown(1)], 1, 30, []),
        ([shown(9), shown(8, good=False), shown(7)], 1, 0, [9, 8]),
        ([shown(9), shown(0.5, good=False)], 1, 0, []),  # may still be copied
        ([shown(9), shown(2, good=False)], 1, 0, [2]),  # the only good one stays, however old
        ([shown(9, good=False), shown(8, good=False)], 1, 0, []),  # all that is left
        ([shown(9), shown(8)], 0, 0, [9]),
    ],
)
def test_the_policy(savepoints: list[Savepoint], newest: int, days: int, gone: list[float]) -> None:
    going = to_remove(savepoints, Policy(newest, days * DAY), NOW)
    assert [one.savepoint for one in going] == [shown(day).savepoint for day in gone]


def test_pruning_removes_folders_and_a_dry_run_none(installed: Installed) -> None:
    for days in (9, 8, 0):
        installed.savepoint(NOW - days * DAY)
    (folder(installed, "notes")).mkdir()
    arguments = {"keep": 1, "days": 3, "operations_days": 30, "generations": 1}
    would = PruneVerb(installed.context("prune", "op-1", arguments, dry_run=True)).run()
    assert len(installed.catalog.ids()) == 4
    done = PruneVerb(installed.context("prune", "op-1", arguments)).run()
    assert would.data == done.data
    assert installed.catalog.ids() == [stamp(NOW), "notes"]
