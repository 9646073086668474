"""Damage that is detected without Spark: it is reported, and the checkpoint stays unchanged."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from botocore.exceptions import EndpointConnectionError

from stateward.contract import storage
from stateward.runtime.checkpoint.hadoop_checksums import HadoopChecksum
from stateward.state import job
from stateward.state.errors import StateError
from stateward.state.files import checkpoint_copy
from stateward.state.files.checkpoint_copy import (
    CopiedFile,
    CopyError,
    DamagedFileError,
    checksums_of,
    copy_checkpoint,
    paths_in,
)
from stateward.state.savepoints.savepoint_catalog import stamp
from tests.support.small_disk import small_disk
from tests.support.state.installed_stream import NOW, STREAM, Installed, Stage

LATER = NOW + timedelta(hours=1)
CHANGES = "state/0/0/2.changelog"


def hadoop_checksum(content: bytes) -> bytes:
    parts = (content[begin : begin + 512] for begin in range(0, len(content), 512))
    return b"crc\0" + struct.pack(">I", 512) + b"".join(struct.pack(">I", zlib.crc32(part)) for part in parts)


def three_batches(made: Installed) -> None:
    """A savepoint after the first batch; the second has some kilobytes of state with a checksum."""
    made.run(0)
    made.savepoint()
    made.run(1)
    content = bytes(range(256)) * 11
    (made.path / CHANGES).write_bytes(content)
    (made.path / "state/0/0/.2.changelog.crc").write_bytes(hadoop_checksum(content))
    made.run(2)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("damage"), three_batches)


def files(installed: Installed) -> list[CopiedFile]:
    return checksums_of(installed.generation.uri)


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[700] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("damage", [truncate, flip, lambda file: file.write_bytes(b"")])
def test_a_damaged_state_file_is_reported_and_the_savepoint_is_broken(
    damage: Callable[[Path], None], installed: Installed
) -> None:
    installed.savepoint(LATER)
    damage(installed.path / CHANGES)
    before = files(installed)

    with pytest.raises(
        DamagedFileError, match=rf"{CHANGES}: expected the content that \.2\.changelog\.crc describes"
    ):
        installed.savepoint(LATER + timedelta(seconds=1))

    assert files(installed) == before
    good = [one for one in installed.catalog.ids() if installed.catalog.look(one).is_good]
    assert good == [stamp(NOW), stamp(LATER)]


@pytest.mark.parametrize("missing", ["state/0/1/2.changelog", "state/0/0/3.changelog"])
def test_a_state_with_a_missing_file_is_not_saved(missing: str, installed: Installed) -> None:
    (installed.path / missing).unlink()
    before = files(installed)
    with pytest.raises(StateError, match=rf"{STREAM}: expected the whole state .* no {missing} or"):
        installed.savepoint(LATER)
    assert files(installed) == before
    assert installed.catalog.ids() == [stamp(NOW)]


def test_an_operators_metadata_is_checked_before_it_is_relocated(installed: Installed) -> None:
    path = installed.path / "state/0/_metadata/v2/0"
    (path.parent / ".0.crc").write_bytes(hadoop_checksum(path.read_bytes()))
    installed.savepoint(LATER)
    text = path.read_text()
    damage = (text.replace("Python", "Pithon").replace("PySpark", "PiSpark"), text[:40], "")
    for seconds, damaged in enumerate(damage, 1):
        path.write_text(damaged)
        with pytest.raises(DamagedFileError, match=r"_metadata/v2/0: expected the content that \.0\.crc"):
            installed.savepoint(LATER + timedelta(seconds=seconds))


def test_a_checksum_does_not_depend_on_the_chunks() -> None:
    content = bytes(range(256)) * 9
    for size in (1, 511, 512, 513, 4000):
        checksum = HadoopChecksum(hadoop_checksum(content))
        for begin in range(0, len(content), size):
            checksum.update(content[begin : begin + size])
        assert checksum.holds()
    with pytest.raises(ValueError, match="expected a checksum file"):
        HadoopChecksum(b"crc")


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("commits/1", "commits: expected batches 0 to 2, found no file for 1"),
        ("offsets/1", "offsets: expected batches 0 to 2, found no file for 1"),
        ("commits/2", "found batch 2 planned and not committed"),
    ],
)
def test_a_log_with_a_gap_is_not_saved(missing: str, message: str, installed: Installed) -> None:
    (installed.path / missing).unlink()
    before = files(installed)
    with pytest.raises(StateError, match=message):
        installed.savepoint(LATER)
    assert files(installed) == before
    assert installed.catalog.ids() == [stamp(NOW)]


def test_a_full_disk_is_reported_and_the_partial_copy_removed(installed: Installed, tmp_path: Path) -> None:
    before = files(installed)
    full = tmp_path / "copy" / CHANGES
    full.parent.mkdir(parents=True)
    full.symlink_to("/dev/full")
    with pytest.raises(CopyError, match=rf"{CHANGES} could not be copied to .*No space left on device"):
        copy_checkpoint(installed.generation.uri, f"file://{tmp_path}/copy")
    assert paths_in(f"file://{tmp_path}/copy") == []
    assert files(installed) == before


def test_an_object_store_that_is_away_is_reported(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(uri: str) -> tuple[object, str]:
        raise EndpointConnectionError(endpoint_url=uri)

    monkeypatch.setattr(checkpoint_copy, "filesystem_at", away)
    with pytest.raises(CopyError, match=rf"{CHANGES} could not be copied to s3://.*Could not connect"):
        checkpoint_copy.copy_file(CHANGES, installed.generation.uri, "s3://bucket/copy")


def run(installed: Installed, verb: str) -> tuple[int, dict[str, str]]:
    """Run a verb as its job does."""
    document = {**installed.document, "bootstrap_servers": "none:1"}
    folder = f"file://{installed.folder}/data/operations/{STREAM}/{stamp(LATER)}-{verb}"
    request = {
        "version": 1,
        "operation": f"{stamp(LATER)}-{verb}",
        "verb": verb,
        "arguments": {"reason": "test", "savepoint": None},
        "dry_run": False,
        "takes_lease": True,
        "needs_spark": False,
        "config": document,
        "yaml": "",
        "launched_uri": f"file://{installed.folder}/none.json",
        "savepoints_uri": f"file://{installed.folder}/data/savepoints/{STREAM}",
        "raw_uri": f"file://{installed.folder}/data/tables/raw_events",
        "folder_uri": folder,
        "state_limits": {},
    }
    storage.write_json(f"{folder}/request.json", request)
    code = job.main([f"{folder}/request.json"])
    return code, storage.read_json(f"{folder}/result.json") or {}


def test_a_disk_that_fills_up_during_a_savepoint(
    installed: Installed, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(installed)
    with small_disk(installed.folder / "data/savepoints" / STREAM, 8 * 4096) as disk:
        code, result = run(installed, "savepoint")
        assert (code, result["state"]) == (1, "refused")
        assert "No space left on device" in result["message"]
        assert "The original is unchanged. Free space" in result["message"]
        assert not [one for one in installed.catalog.ids() if installed.catalog.look(one).is_good]
        assert not [path for path in disk.rglob("*") if path.is_file()], "the disk is still full"
    assert "@error\t" in capsys.readouterr().out
    assert files(installed) == before
    installed.savepoint(LATER)
    assert installed.catalog.require_good(stamp(LATER))


def test_a_disk_without_space_for_the_result(
    installed: Installed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write = storage.write_text

    def full(uri: str, text: str) -> None:
        if not uri.endswith(("request.json", "journal.json")):
            raise OSError(28, "No space left on device", uri)
        write(uri, text)

    before = files(installed)
    monkeypatch.setattr(storage, "write_text", full)
    code, result = run(installed, "savepoint")
    assert (code, result) == (1, {})
    [told] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("@error")]
    assert f"stream {STREAM}: savepoint could not go on" in told
    assert "manifest.json" in told
    assert files(installed) == before
    [broken] = [one for one in installed.catalog.ids() if not installed.catalog.look(one).is_good]
    assert broken == stamp(LATER)


def test_a_restore_without_space_changes_nothing(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, before = installed.rows(), files(installed)
    copy, room = checkpoint_copy.copy_file, iter(range(5))

    def until_full(path: str, source_uri: str, target_uri: str) -> CopiedFile:
        if next(room, None) is None:
            raise CopyError("No space left on device")
        return copy(path, source_uri, target_uri)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_copy, "copy_file", until_full)
        with pytest.raises(CopyError):
            installed.restore()
    assert paths_in(installed.generation.following().uri) == [], "the disk is still full"
    assert (installed.generation.number, installed.generation.pending) == (1, None)
    assert (installed.rows(), files(installed)) == (rows, before)
    assert installed.restore()["generation"] == 2


def test_a_truncated_manifest_is_reported(installed: Installed) -> None:
    manifest = installed.folder / "data/savepoints" / STREAM / stamp(NOW) / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()))[:-40])
    [problem] = installed.catalog.look(stamp(NOW)).problems
    assert problem.startswith("manifest.json cannot be read")
