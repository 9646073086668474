"""The size of each state partition of a stream on Spark's own operators, from the files of its checkpoint.

Spark reports the sum over an operator's partitions. But each partition of each store uploads snapshots, and a
snapshot of RocksDB lists its files with their sizes. They are read every half minute while the stream runs.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from stateward.contract.storage import filesystem_at
from stateward.runtime.api.native_job import NativeJob

if TYPE_CHECKING:
    from stateward.runtime.api.any_job import AnyJob

_LOG = logging.getLogger(__name__)
_EVERY_S = 30.0
_SNAPSHOT = re.compile(r"(\d+)/(\d+)/(?:[^/]+/)?(\d+)(?:_[^/]+)?\.(zip|snapshot)")


class _Snapshot(NamedTuple):
    """The newest snapshot of a store in a partition."""

    version: int
    path: str
    bytes: int | None


class SnapshotSizes:
    """The sizes in one checkpoint. What was read of a snapshot is kept until there is a newer one.

    Args:
        checkpoint_uri: The checkpoint.
    """

    def __init__(self, checkpoint_uri: str) -> None:
        self._uri = f"{checkpoint_uri}/state"
        self._known: dict[str, int] = {}

    def read(self) -> dict[str, int]:
        """The bytes of each partition in the newest snapshots of all its stores, by its number.

        A partition without a snapshot, or without rows in it, is left out.
        """
        filesystem, root = filesystem_at(self._uri)
        sizes: dict[int, int] = {}
        known = {}
        for (_, partition), snapshot in _newest(_found(filesystem, root)).items():
            try:
                size = self._size(filesystem, snapshot)
            except FileNotFoundError:  # the stream has removed it since
                continue
            known[snapshot.path] = size
            sizes[partition] = sizes.get(partition, 0) + size
        self._known = known
        return {str(number): size for number, size in sorted(sizes.items()) if size}

    def _size(self, filesystem: Any, snapshot: _Snapshot) -> int:
        if snapshot.bytes is not None:
            return snapshot.bytes
        known = self._known.get(snapshot.path)
        return listed_bytes(filesystem.cat_file(snapshot.path)) if known is None else known


def listed_bytes(archive: bytes) -> int:
    """The size of the files that a snapshot of RocksDB consists of, from its metadata."""
    with zipfile.ZipFile(BytesIO(archive)) as opened:
        metadata = json.loads(opened.read("metadata").partition(b"\n")[2])
    return sum(int(one["sizeBytes"]) for one in metadata.get("sstFiles") or ())


def _found(filesystem: Any, root: str) -> Mapping[str, Any]:
    """All files below a folder; empty if there is none, or if a part of it was removed meanwhile."""
    try:
        found: Mapping[str, Any] = filesystem.find(root, detail=True)
    except FileNotFoundError:
        return {}
    return {str(path)[len(root) + 1 :]: {**info, "path": path} for path, info in found.items()}


def _newest(files: Mapping[str, Any]) -> dict[tuple[str, int], _Snapshot]:
    """By store and partition; a store is named by its folder and its operator."""
    found: dict[tuple[str, int], _Snapshot] = {}
    for path, info in files.items():
        name = _SNAPSHOT.fullmatch(path)
        if name is None:
            continue
        operator, partition, version, kind = name.groups()
        store = path.rpartition("/")[0].split("/")[2:]
        place = "/".join((operator, *store)), int(partition)
        # The store of RocksDB has its rows in files beside the archive, the other one in the snapshot itself.
        size = int(info["size"] or 0) if kind == "snapshot" else None
        snapshot = _Snapshot(int(version), str(info["path"]), size)
        if place not in found or (snapshot.version, snapshot.path) > found[place][:2]:
            found[place] = snapshot
    return found


@contextmanager
def watched_snapshots(job: AnyJob, checkpoint_uri: str, publish: Callable[..., None]) -> Iterator[None]:
    """Publish the sizes again and again while the block runs, of a stream on Spark's own operators.

    Args:
        job: The stream; of another kind nothing is done.
        checkpoint_uri: Its checkpoint.
        publish: Receives status fields.
    """
    if not isinstance(job, NativeJob):
        yield
        return
    sizes, ended = SnapshotSizes(checkpoint_uri), threading.Event()

    def run() -> None:
        while not ended.wait(_EVERY_S):
            try:
                publish(partition_bytes=sizes.read() or None)
            except Exception:
                # The next one may succeed.
                _LOG.exception("the sizes of the state's partitions in %s could not be read", checkpoint_uri)

    thread = threading.Thread(target=run, name="snapshot-sizes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
