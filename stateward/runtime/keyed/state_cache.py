"""A local copy of the newest state of every key, for fast reads.

Reading Spark's state store from Python costs a hundred microseconds a key (docs/decisions/0004). So each
state partition has a folder on the machine where its task runs, shared by all Python workers there. A task
writes one file with the sorted runs (`bucket_copy`) of the buckets that it changed, and an index that names
the runs of every bucket. The state store stays authoritative: a bucket whose stamp differs is discarded and
loaded again, and deleting the folder loses nothing.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections import Counter
from collections.abc import Iterable
from mmap import ACCESS_READ, mmap
from pathlib import Path

import msgspec
import pandas as pd

from stateward.runtime.keyed.bucket_copy import BucketCopy, Level, Place
from stateward.runtime.keyed.copy_folders import copy_folder, prepare_copy
from stateward.runtime.keyed.log_index import Chunks
from stateward.runtime.keyed.sorted_run import Shape, SortedRun

_INDEX = "index"
_LOCK = "lock"
# A file of which less than this part is still in use is removed, and what is in use is written again.
_LEAST_USED = 1 / 4

# The files that this process has mapped, by folder and name. A name is never used twice.
_mapped: dict[Path, dict[str, mmap]] = {}


class _Bucket(msgspec.Struct, array_like=True):
    """A bucket in the index: its log's, and where its runs are, with how many entries have been due."""

    chunks: Chunks
    runs: list[tuple[Place, int]]


class _Index(msgspec.Struct):
    """The index of a partition.

    Attributes:
        hashed_by: The version of pandas, whose hash of keys orders the runs.
        buckets: By number.
        files: The size of each file.
    """

    hashed_by: str = pd.__version__
    buckets: dict[int, _Bucket] = {}
    files: dict[str, int] = {}


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Index).decode


class StateCache:
    """The copy of one state partition during one task; `commit` or `abort` ends it.

    Only one task has a partition's copy at a time; others wait.

    Args:
        root: The folder for copies, possibly of several streams; created if missing.
        checkpoint_uri: The checkpoint's folder.
        partition: Number of the state partition.

    Raises:
        CopyFolderError: The folder belongs to another user.
    """

    def __init__(self, root: str, checkpoint_uri: str, partition: int) -> None:
        self.partition = partition
        self._folder = copy_folder(root, checkpoint_uri) / f"p{partition}"
        if self._folder not in _mapped or not self._folder.is_dir():
            prepare_copy(root, checkpoint_uri)
            self._folder.mkdir(exist_ok=True)
        self._lock = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._index = _read_index(self._folder)
        self._used: dict[int, BucketCopy] = {}
        self._compare_files()

    def bucket(self, number: int) -> BucketCopy:
        """The copy of a bucket; valid until the task ends."""
        if number not in self._used:
            self._used[number] = self._open(number)
        return self._used[number]

    def commit(self) -> None:
        """Make the changes visible to the next task; without it they are discarded.

        Raises:
            OSError: The disk is full.
        """
        before = set(self._index.files)
        try:
            self._write_file()
            (self._folder / f"{_INDEX}.new").write_bytes(_encode(self._index))
            (self._folder / f"{_INDEX}.new").replace(self._folder / _INDEX)
            self._remove(before - self._index.files.keys())
        finally:
            self.abort()

    def abort(self) -> None:
        """End the task; changes that were not committed are discarded."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _compare_files(self) -> None:
        """Remove files that the index does not name, and from it buckets of which a file is gone or shorter.

        A worker that was killed leaves such files; what cleans folders for temporary files removes old ones.
        """
        index, mapped = self._index, _mapped.setdefault(self._folder, {})
        sizes = {file.name: file.stat().st_size for file in os.scandir(self._folder)}
        lost = {name for name, size in index.files.items() if sizes.get(name, -1) < size}
        if lost:
            index.files = {name: size for name, size in index.files.items() if name not in lost}
            index.buckets = {
                number: bucket
                for number, bucket in index.buckets.items()
                if lost.isdisjoint(place.file for place, _ in bucket.runs)
            }
        self._remove((sizes.keys() | mapped.keys()) - index.files.keys() - {_INDEX, _LOCK})

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            (self._folder / name).unlink(missing_ok=True)
            _mapped[self._folder].pop(name, None)

    def _open(self, number: int) -> BucketCopy:
        found = self._index.buckets.get(number)
        if found is None:
            return BucketCopy(number, Chunks())
        levels = [
            Level(SortedRun(self._map(place.file), place.begin, place.shape), passed, place)
            for place, passed in found.runs
        ]
        return BucketCopy(number, found.chunks, levels)

    def _map(self, name: str) -> mmap:
        mapped = _mapped[self._folder]
        if name not in mapped:
            with (self._folder / name).open("rb") as file:
                mapped[name] = mmap(file.fileno(), self._index.files[name], access=ACCESS_READ)
        return mapped[name]

    def _write_file(self) -> None:
        """Write new runs into a file, with those of files that are hardly used, and index them."""
        index, name = self._index, secrets.token_hex(8)
        parts: list[bytes] = []
        end = 0

        def place(content: bytes, shape: Shape) -> Place:
            nonlocal end
            parts.append(content)
            end += len(content)
            return Place(name, end - len(content), shape)

        for number, copy in self._used.items():
            for level in copy.levels:
                level.place = level.place or place(level.run.content, level.run.shape)
            runs = [(level.place, level.passed) for level in copy.levels if level.place is not None]
            index.buckets[number] = _Bucket(copy.chunks, runs)
        for bucket, at, old in self._hardly_used():
            content = self._map(old.file)[old.begin : old.begin + old.shape.length]
            bucket.runs[at] = place(content, old.shape), bucket.runs[at][1]
        if parts:
            with (self._folder / name).open("xb") as file:
                file.writelines(parts)
            index.files[name] = end
        used = {place.file for bucket in index.buckets.values() for place, _ in bucket.runs}
        index.files = {name: size for name, size in index.files.items() if name in used}

    def _hardly_used(self) -> list[tuple[_Bucket, int, Place]]:
        """The saved runs in files of which most is no longer in use."""
        saved = [
            (bucket, at, place)
            for bucket in self._index.buckets.values()
            for at, (place, _) in enumerate(bucket.runs)
            if place.file in self._index.files
        ]
        used: Counter[str] = Counter()
        for _, _, place in saved:
            used[place.file] += place.shape.length
        sparse = {name for name, size in used.items() if size < _LEAST_USED * self._index.files[name]}
        return [found for found in saved if found[2].file in sparse]


def _read_index(folder: Path) -> _Index:
    try:
        index = _decode((folder / _INDEX).read_bytes())
    except (OSError, msgspec.DecodeError):
        return _Index()
    return index if index.hashed_by == pd.__version__ else _Index()
