"""Checks, without Spark, that every file which Spark needs to load the newest version of a state exists.

Batch ``n`` writes version ``n + 1`` of every store in every partition: a snapshot or a changelog. Spark loads
the last snapshot, which may consist of several files, and every changelog after it.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from io import BytesIO

from stateward.contract import storage
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.state.errors import StateError
from stateward.state.files.checkpoint_copy import paths_in
from stateward.state.files.spark_files import operator_metadata, operator_numbers

_VERSION = re.compile(r"(\d+)(?:_(.+))?\.(changelog|delta|zip|snapshot)")
_SNAPSHOTS = (".zip", ".snapshot")
# In the metadata of a RocksDB snapshot: the list of files, the field with the name, and the folder.
_PARTS = (("sstFiles", "dfsSstFileName", "SSTs"), ("logFiles", "dfsLogFileName", "logs"))
# Other operators may have no files in a partition: all rows may be in another one, and after a repartition a
# batch writes none where there are no rows.
_IN_EVERY_PARTITION = "transformWithState"
_SHOWN = 5

Ids = dict[tuple[str, int], list[str]]
"""By operator and partition, the unique ids in the names of a version's files."""


def require_whole_state(stream: str, checkpoint_uri: str) -> None:
    """Require every file of the state of the last batch.

    Args:
        stream: The stream.
        checkpoint_uri: A checkpoint that has no writer.

    Raises:
        StateError: A file is missing.
    """
    missing = missing_files(checkpoint_uri)
    if not missing:
        return
    batch = Checkpoint(checkpoint_uri).last_committed()
    more = f", and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    raise StateError(
        f"stream {stream}: expected the whole state of batch {batch} in {checkpoint_uri}, found no "
        f"{'; no '.join(missing[:_SHOWN])}{more}. Put the removed files back, or restore an intact "
        "savepoint (`stateward state restore`)."
    )


def missing_files(checkpoint_uri: str) -> list[str]:
    """Paths in the checkpoint of the missing files of the last batch's state.

    Where a batch writes one of two files, the text names both. Files that only older batches need and those
    of Spark's built-in operators are not checked.
    """
    uri = checkpoint_uri.rstrip("/")
    batch = Checkpoint(uri).last_committed()
    if batch < 0:
        return []
    files = _StateFiles(uri)
    return [path for place in files.places() for path in files.missing(place, batch + 1)]


def files_after(checkpoint_uri: str, batch: int) -> list[str]:
    """Paths in the checkpoint of the state files that batches after ``batch`` wrote."""
    found = []
    for path in paths_in(checkpoint_uri):
        name = _VERSION.fullmatch(path.rpartition("/")[2])
        if path.startswith("state/") and name is not None and int(name[1]) > batch + 1:
            found.append(path)
    return found


class _StateFiles:
    """The state files of a checkpoint; a place is the folder of one store in one partition."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._paths = {path for path in paths_in(uri) if path.startswith("state/")}
        self._versions: dict[tuple[str, int], list[str]] = defaultdict(list)
        for path in self._paths:
            place, _, name = path.rpartition("/")
            if found := _VERSION.fullmatch(name):
                self._versions[place, int(found[1])].append(name)
        is_rocksdb = not any(path.endswith((".delta", ".snapshot")) for path in self._paths)
        self._endings = (".changelog", ".zip") if is_rocksdb else (".delta", ".snapshot")
        self._ids: dict[int, Ids] = {}

    def places(self) -> Iterator[str]:
        """The places that must exist according to the metadata of the operators."""
        for operator in operator_numbers(self._uri):
            root = f"state/{operator}"
            try:
                metadata = operator_metadata(f"{self._uri}/{root}")
            except (ValueError, IndexError):
                # The copy reports a damaged file.
                continue
            name = str(metadata.get("operatorInfo", {}).get("operatorName", ""))
            if not name.startswith(_IN_EVERY_PARTITION):
                continue
            for store in metadata.get("stateStoreInfo", ()):
                folder = "" if store["storeName"] == "default" else f"/{store['storeName']}"
                for partition in range(store.get("numPartitions", 0)):
                    yield f"{root}/{partition}{folder}"

    def missing(self, place: str, version: int) -> Iterator[str]:
        """The missing files of a version, from its last snapshot on."""
        for number in range(version, 0, -1):
            ids = self._ids_of(place, number)
            names = [name for name in self._versions[place, number] if _is_one_of(name, ids)]
            if snapshots := [name for name in names if name.endswith(_SNAPSHOTS)]:
                yield from self._missing_parts(place, snapshots[0])
                return
            if not names:
                stem = f"{number}_{ids[0]}" if ids is not None and len(ids) == 1 else str(number)
                yield " or ".join(f"{place}/{stem}{ending}" for ending in self._endings)
                return

    def _ids_of(self, place: str, version: int) -> list[str] | None:
        """The unique ids in the batch's file names, from its commit; None if the version alone names them."""
        batch = version - 1
        if batch not in self._ids:
            self._ids[batch] = _committed_ids(self._uri, batch)
        _, operator, partition, *_ = place.split("/")
        return self._ids[batch].get((operator, int(partition)))

    def _missing_parts(self, place: str, name: str) -> Iterator[str]:
        """The missing files that a RocksDB snapshot refers to."""
        if not name.endswith(".zip"):
            return
        filesystem, root = storage.filesystem_at(self._uri)
        try:
            with zipfile.ZipFile(BytesIO(filesystem.cat_file(f"{root}/{place}/{name}"))) as archive:
                metadata = json.loads(archive.read("metadata").partition(b"\n")[2])
        except (zipfile.BadZipFile, KeyError, ValueError):
            yield f"{place}/{name} that can be read"
            return
        for listed, key, folder in _PARTS:
            paths = (f"{place}/{folder}/{part[key]}" for part in metadata.get(listed) or ())
            yield from (path for path in paths if path not in self._paths)


def _is_one_of(name: str, ids: list[str] | None) -> bool:
    found = _VERSION.fullmatch(name)
    assert found is not None
    return ids is None or found[2] in ids


def _committed_ids(uri: str, batch: int) -> Ids:
    """The unique ids of a batch's commit; empty if it has none, or no longer exists."""
    text = storage.read_text(f"{uri}/commits/{batch}") or ""
    try:
        found = json.loads(text.partition("\n")[2] or "{}").get("stateUniqueIds") or {}
    except ValueError:
        return {}  # the copy reports it
    return {
        (operator, partition): ids
        for operator, partitions in found.items()
        for partition, ids in enumerate(partitions)
    }
