"""The sizes of state partitions, from the snapshots in a checkpoint that is being written."""

from __future__ import annotations

import io
import json
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.event_windows.declaration import JOB as NATIVE
from spark_jobs.user_sessions.declaration import JOB as KEYED
from stateward.runtime.telemetry import snapshot_sizes
from stateward.runtime.telemetry.snapshot_sizes import SnapshotSizes, watched_snapshots
from tests.support.waiting import PATIENCE_S


def write(root: Path, path: str, *sizes: int) -> Path:
    """Write a snapshot of RocksDB whose files have these sizes."""
    listed = [{"localFileName": f"{n}.sst", "sizeBytes": size} for n, size in enumerate(sizes)]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("CURRENT", "MANIFEST-000004")
        opened.writestr("metadata", "v1\n" + json.dumps({"sstFiles": listed, "numKeys": 3}))
    file = root / "state" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(archive.getvalue())
    return file


@pytest.fixture
def sizes(tmp_path: Path) -> SnapshotSizes:
    return SnapshotSizes(tmp_path.as_uri())


def test_the_newest_snapshots_of_all_stores_of_a_partition_are_added(
    tmp_path: Path, sizes: SnapshotSizes
) -> None:
    write(tmp_path, "0/0/9.zip", 70_000)
    write(tmp_path, "0/0/10.zip", 1000, 2000)
    write(tmp_path, "0/1/10_1f0c-uuid.zip", 500)
    write(tmp_path, "1/0/left-keyToNumValues/4.zip", 40)
    write(tmp_path, "1/0/right-keyToNumValues/7.zip", 8)
    write(tmp_path, "1/2/default/7.zip")
    (tmp_path / "state/0/0/11.changelog").write_bytes(b"x" * 10_000)
    (tmp_path / "state/0/_metadata").mkdir()
    (tmp_path / "state/0/_metadata/metadata").write_text("v1")
    assert sizes.read() == {"0": 3048, "1": 500}


def test_a_snapshot_of_the_store_in_memory_is_one_file(tmp_path: Path, sizes: SnapshotSizes) -> None:
    folder = tmp_path / "state/0/0"
    folder.mkdir(parents=True)
    for name, size in {"3.snapshot": 10, "12.snapshot": 250, "13.delta": 9}.items():
        (folder / name).write_bytes(b"x" * size)
    assert sizes.read() == {"0": 250}


def test_a_snapshot_is_opened_once(
    tmp_path: Path, sizes: SnapshotSizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    real = snapshot_sizes.listed_bytes

    def listed(archive: bytes) -> int:
        opened.append(len(archive))
        return real(archive)

    monkeypatch.setattr(snapshot_sizes, "listed_bytes", listed)
    old = write(tmp_path, "0/0/1.zip", 10)
    assert [sizes.read(), sizes.read(), len(opened)] == [{"0": 10}, {"0": 10}, 1]
    old.unlink()
    write(tmp_path, "0/0/2.zip", 30)
    assert [sizes.read(), sizes.read(), len(opened)] == [{"0": 30}, {"0": 30}, 2]


def test_without_a_snapshot_nothing_is_known(tmp_path: Path, sizes: SnapshotSizes) -> None:
    assert sizes.read() == {}
    (tmp_path / "state/0/0").mkdir(parents=True)
    assert sizes.read() == {}


def test_a_damaged_snapshot_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_sizes, "_EVERY_S", 0.01)
    file = write(tmp_path, "0/0/1.zip", 10)
    whole, failed, published = file.read_bytes(), threading.Event(), threading.Event()
    found: list[Any] = []
    monkeypatch.setattr(snapshot_sizes._LOG, "exception", lambda *texts: failed.set())

    def publish(**fields: Any) -> None:
        found.append(fields)
        published.set()

    file.write_bytes(b"PK")
    with watched_snapshots(NATIVE, tmp_path.as_uri(), publish):
        assert failed.wait(PATIENCE_S), "a damaged file is reported"
        file.write_bytes(whole)
        assert published.wait(PATIENCE_S), "the sizes are published"
    assert found[0] == {"partition_bytes": {"0": 10}}


def test_of_a_keyed_stream_no_snapshot_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "Thread", None)
    with watched_snapshots(KEYED, tmp_path.as_uri(), lambda **fields: pytest.fail(f"{fields}")):
        pass
