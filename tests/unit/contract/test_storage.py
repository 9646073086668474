"""JSON documents at a URI: whole, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from s3fs import S3FileSystem

from stateward.contract import storage
from stateward.contract.storage import CorruptDocumentError, read_json, write_json, write_passing
from tests.support.object_store import BUCKET, object_store
from tests.support.power_loss import Disk


@pytest.fixture(params=["file", "memory"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return (
        f"file://{tmp_path}/a b/doc.json" if request.param == "file" else f"memory://{tmp_path.name}/doc.json"
    )


def test_what_is_written_is_read(uri: str) -> None:
    assert read_json(uri) is None
    write_json(uri, {"a": 1})
    write_json(uri, {"ü": [None]})
    assert read_json(uri) == {"ü": [None]}


def test_a_failed_write_leaves_the_old_document_and_nothing_else(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/doc.json"
    write_json(uri, {"a": 1})
    with pytest.raises(TypeError):
        write_json(uri, {"a": object()})
    assert read_json(uri) == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["doc.json"]


@pytest.mark.parametrize("content", [b"", b'{"a":', b"[1]", b"\xff"])
def test_what_is_no_json_object_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "doc.json").write_bytes(content)
    with pytest.raises(CorruptDocumentError, match=r"doc\.json"):
        read_json(f"file://{tmp_path}/doc.json")


def test_a_document_in_a_new_folder_survives_a_power_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path)
    with monkeypatch.context() as patch:
        disk.record(patch)
        write_json(f"file://{tmp_path}/a/b/doc.json", {"a": 1})
        write_passing(f"file://{tmp_path}/a/b/status.json", "{}")
    disk.look("the power is lost")
    assert disk.last[0].files == {Path("a/b/doc.json"): b'{"a":1}'}


class CachingFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """Keeps listings, as most implementations for object stores do."""

    protocol = "caching"
    store: dict[str, Any] = {}  # noqa: RUF012 - of the class, as its parent's: all instances see one storage
    pseudo_dirs: list[str] = [""]  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("caching://", "memory://")))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        path = self._strip_protocol(path)
        if path not in self.dircache:
            self.dircache[path] = super().ls(path, detail=True, **kwargs)
        found = self.dircache[path] if path in self.dircache else super().ls(path, detail=True, **kwargs)
        return found if detail else [entry["name"] for entry in found]


class Marking(MemoryFileSystem):  # type: ignore[misc]
    """Lists an empty object for a folder, as s3fs does on S3 where Spark has made the folder."""

    protocol = "marking"
    store: dict[str, Any] = {}  # noqa: RUF012
    pseudo_dirs: list[str] = [""]  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("marking://", "memory://")))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        marker = {"name": f"{self._strip_protocol(path)}/", "size": 0, "type": "file"}
        found = [marker, *super().ls(path, detail=True, **kwargs)]
        return found if detail else [entry["name"] for entry in found]

    def find(self, path: str, *args: Any, **kwargs: Any) -> Any:
        marker = {"name": f"{self._strip_protocol(path)}/", "size": 0, "type": "file"}
        found = MemoryFileSystem().find(path.replace("marking://", "memory://"), *args, **kwargs)
        return {marker["name"]: marker, **found}


class SlowRename(MemoryFileSystem):  # type: ignore[misc]
    """Shows a file from its first byte on, and renames it in one step, as HDFS does."""

    protocol = ("hdfs", "webhdfs-of-a-test")
    store: dict[str, Any] = {}  # noqa: RUF012
    pseudo_dirs: list[str] = [""]  # noqa: RUF012
    is_full = False

    def pipe_file(self, path: str, value: bytes, **kwargs: Any) -> None:
        super().pipe_file(path, value[: len(value) // 2])
        if self.is_full:
            raise OSError("no space left")
        super().pipe_file(path, value)

    def mv(self, path1: str, path2: str, **kwargs: Any) -> None:
        assert kwargs["overwrite"]
        self.store[path2] = self.store.pop(path1)


@pytest.fixture
def caching() -> Iterator[str]:
    fsspec.register_implementation("caching", CachingFileSystem, clobber=True)
    yield "caching://data"
    CachingFileSystem.store.clear()


def test_what_another_host_writes_is_listed_at_once(caching: str) -> None:
    storage.write_text(f"{caching}/folder/one", "1")
    assert storage.list_names(f"{caching}/folder") == ["one"]
    # Past the instance, which would forget its listing.
    CachingFileSystem.store["/data/folder/two"] = CachingFileSystem.store["/data/folder/one"]
    assert sorted(storage.list_names(f"{caching}/folder")) == ["one", "two"]
    assert storage.sizes_below(caching) == {"folder/one": 1, "folder/two": 1}


def test_where_a_file_is_seen_while_it_is_written_it_gets_its_name_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hdfs = SlowRename()
    monkeypatch.setattr(storage, "filesystem_at", lambda uri: (hdfs, uri.removeprefix("hdfs://host")))
    write_json("hdfs://host/control/a.json", {"a": 1})
    monkeypatch.setattr(SlowRename, "is_full", True)
    with pytest.raises(OSError, match="no space"):
        write_json("hdfs://host/control/a.json", {"a": 2})
    assert {path: file.getvalue() for path, file in hdfs.store.items()} == {"/control/a.json": b'{"a":1}'}
    hdfs.store.clear()


def test_the_files_below_a_folder_have_their_paths_there(uri: str) -> None:
    folder = uri.rpartition("/")[0]
    assert storage.sizes_below(folder) == {}
    write_json(uri, {})
    storage.write_bytes(f"{folder}/a/b.bin", b"123")
    assert storage.sizes_below(f"{folder}/") == {"doc.json": 2, "a/b.bin": 3}
    assert storage.read_bytes(f"{folder}/a/b.bin") == b"123"
    assert storage.read_bytes(f"{folder}/a") is None
    storage.delete(f"{folder}/a")
    assert storage.sizes_below(folder) == {"doc.json": 2}


def test_the_mark_of_a_folder_is_no_file() -> None:
    fsspec.register_implementation("marking", Marking, clobber=True)
    storage.write_text("marking://data/folder/one", "1")
    MemoryFileSystem.store["/data/folder/one"] = Marking.store["/data/folder/one"]
    assert storage.list_names("marking://data/folder") == ["one"]
    assert storage.sizes_below("marking://data/folder") == {"one": 1}


def test_a_file_has_the_time_of_its_last_change(uri: str) -> None:
    assert storage.modified_at(uri) is None
    before = datetime.now(UTC) - timedelta(minutes=1)
    write_json(uri, {})
    modified = storage.modified_at(uri)
    assert modified is not None and modified.utcoffset() == timedelta(0)
    assert before < modified < before + timedelta(hours=1)


class Replaces(MemoryFileSystem):  # type: ignore[misc]
    """Ignores that a file is to be written only where there is none."""

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        super().pipe_file(path, value)


def test_storage_that_replaces_what_it_should_not_is_found(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert storage.has_put_if_absent(uri)
    assert storage.sizes_below(uri.rpartition("/")[0]) == {}
    monkeypatch.setattr(
        storage, "filesystem_at", lambda found: (Replaces(), f"/{tmp_path.name}/{found[-50:]}")
    )
    assert not storage.has_put_if_absent(uri)
    assert Replaces().find(f"/{tmp_path.name}") == []


def test_a_server_that_refuses_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with object_store() as served:
        for name, value in served.environment.items():
            monkeypatch.setenv(name, value)
        served.write("a.json", b"{}")
        uri = f"s3://{BUCKET}/a.json"
        # More than one client tries by itself; the answer to HEAD says no more than 503.
        served.refuse(6)
        assert storage.exists(uri)
        served.refuse(6)
        assert read_json(uri) == {}
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    S3FileSystem.clear_instance_cache()
    with pytest.raises(OSError, match=r"s3://bucket/a\.json: Could not connect to the endpoint"):
        read_json(uri)
    S3FileSystem.clear_instance_cache()


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "find_spec", lambda name: None)
    with pytest.raises(
        OSError, match=r"hdfs://host:9000/data/a\.json: .* Install hdfs-native to access HDFS"
    ):
        read_json("hdfs://host:9000/data/a.json")

    def missing(uri: str) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(OSError, match=r"s3a://bucket/a\.json: .* found none: Install s3fs to access S3\.$"):
        read_json("s3a://bucket/a.json")
