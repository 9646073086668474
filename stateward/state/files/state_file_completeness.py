"""Whether the files are there from which Spark reads the newest version of a state; Spark is not needed.

Batch ``n`` leaves version ``n + 1`` of every store in every partition: a whole state, or what the batch has
changed. Spark goes back from the newest version to the last whole one, which may consist of several files.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from io import BytesIO

import fsspec

from stateward.contract import storage
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.state.files.checkpoint_copy import paths_in
from stateward.state.files.spark_files import operator_metadata, operator_numbers
from stateward.state.operation.errors import StateError

_VERSION = re.compile(r"(\d+)(?:_(.+))?\.(changelog|delta|zip|snapshot)")
_WHOLE = (".zip", ".snapshot")
# In the metadata of a whole state of RocksDB: which files it consists of, their names, and where they lie.
_PARTS = (("sstFiles", "dfsSstFileName", "SSTs"), ("logFiles", "dfsLogFileName", "logs"))
# Of other operators it is not known which partitions have files: they may have all rows in one, and after a
# repartition a batch leaves none where there are no rows.
_IN_EVERY_PARTITION = "transformWithState"
_SHOWN = 5

Ids = dict[tuple[str, int], list[str]]
"""By operator and partition how the files of a version are named, besides its number."""


def require_whole_state(stream: str, checkpoint_uri: str) -> None:
    """Make sure that no file of the state as of the last batch is missing.

    Args:
        stream: The stream.
        checkpoint_uri: A checkpoint that nobody writes.

    Raises:
        StateError: One is.
    """
    missing = missing_files(checkpoint_uri)
    if not missing:
        return
    batch = Checkpoint(checkpoint_uri).last_committed()
    more = f", and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    raise StateError(
        f"stream {stream}: expected the whole state of batch {batch} in {checkpoint_uri}, found no "
        f"{'; no '.join(missing[:_SHOWN])}{more}. Put back what was removed, or go back to a savepoint that "
        "is whole (`stateward state restore`)."
    )


def missing_files(checkpoint_uri: str) -> list[str]:
    """Which files of the state as of the last batch are missing, by their paths in the checkpoint.

    Where a batch could have written one of two files, both are named. What only older batches need is not
    looked for, nor what Spark's own operators keep.
    """
    uri = checkpoint_uri.rstrip("/")
    batch = Checkpoint(uri).last_committed()
    if batch < 0:
        return []
    files = _StateFiles(uri)
    return [path for place in files.places() for path in files.missing(place, batch + 1)]


def files_after(checkpoint_uri: str, batch: int) -> list[str]:
    """Files of states that batches after ``batch`` have left, by their paths in the checkpoint."""
    found = []
    for path in paths_in(checkpoint_uri):
        name = _VERSION.fullmatch(path.rpartition("/")[2])
        if path.startswith("state/") and name is not None and int(name[1]) > batch + 1:
            found.append(path)
    return found


class _StateFiles:
    """The files of a checkpoint's state; a place is the folder of one store in one partition."""

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
        """All that should be there, by the metadata of the operators."""
        for operator in operator_numbers(self._uri):
            root = f"state/{operator}"
            try:
                metadata = operator_metadata(f"{self._uri}/{root}")
            except (ValueError, IndexError):
                # A damaged file is named by whoever copies it.
                continue
            name = str(metadata.get("operatorInfo", {}).get("operatorName", ""))
            if not name.startswith(_IN_EVERY_PARTITION):
                continue
            for store in metadata.get("stateStoreInfo", ()):
                folder = "" if store["storeName"] == "default" else f"/{store['storeName']}"
                for partition in range(store.get("numPartitions", 0)):
                    yield f"{root}/{partition}{folder}"

    def missing(self, place: str, version: int) -> Iterator[str]:
        """What is missing of a version, from the last whole state on."""
        for number in range(version, 0, -1):
            ids = self._ids_of(place, number)
            names = [name for name in self._versions[place, number] if _is_one_of(name, ids)]
            if whole := [name for name in names if name.endswith(_WHOLE)]:
                yield from self._missing_parts(place, whole[0])
                return
            if not names:
                stem = f"{number}_{ids[0]}" if ids is not None and len(ids) == 1 else str(number)
                yield " or ".join(f"{place}/{stem}{ending}" for ending in self._endings)
                return

    def _ids_of(self, place: str, version: int) -> list[str] | None:
        """How the batch has named its files, as its commit says; None if by the version alone."""
        batch = version - 1
        if batch not in self._ids:
            self._ids[batch] = _committed_ids(self._uri, batch)
        _, operator, partition, *_ = place.split("/")
        return self._ids[batch].get((operator, int(partition)))

    def _missing_parts(self, place: str, name: str) -> Iterator[str]:
        """What a whole state of RocksDB consists of besides."""
        if not name.endswith(".zip"):
            return
        filesystem, root = fsspec.core.url_to_fs(self._uri)
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
    """By the commit of a batch; none if the version alone names the files, or the commit is gone."""
    text = storage.read_text(f"{uri}/commits/{batch}") or ""
    try:
        found = json.loads(text.partition("\n")[2] or "{}").get("stateUniqueIds") or {}
    except ValueError:
        # As above.
        return {}
    return {
        (operator, partition): ids
        for operator, partitions in found.items()
        for partition, ids in enumerate(partitions)
    }
