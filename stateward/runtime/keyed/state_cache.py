"""A local copy of the newest state of every key, for fast reads.

Reading Spark's state store from Python costs a hundred microseconds a key (docs/decisions/0004). So each
state partition has an LMDB file on the machine where its task runs, shared by all Python workers there. The
state store stays authoritative: a bucket whose stamp differs is discarded and loaded again, and deleting the
folder loses nothing.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import lmdb

from stateward.runtime.keyed.bucket_copy import BucketCopy
from stateward.runtime.keyed.copy_folders import copy_folder, prepare_copy

# Address space, not memory: the file grows on demand, and the kernel can evict its pages.
_MAP_BYTES = 64 * 1024**3
# After a write that failed on a full disk at most this much is free: part of a page, or what others freed.
_FULL_BYTES = 1024**2

# Size of LMDB's lock file with its default number of readers.
_LOCK_BYTES = 8192

_open: dict[Path, lmdb.Environment] = {}


class StateCache:
    """The copy of one state partition, in one write transaction.

    Only one write transaction is open at a time; others wait.

    Args:
        root: The folder for copies, possibly of several streams; created if missing.
        checkpoint_uri: The checkpoint's folder.
        partition: Number of the state partition.

    Raises:
        CopyFolderError: The folder belongs to another user.
    """

    def __init__(self, root: str, checkpoint_uri: str, partition: int) -> None:
        self.partition = partition
        self._folder = copy_folder(root, checkpoint_uri)
        environment = _environment(root, checkpoint_uri, partition)
        self._keys = environment.open_db(b"keys")
        self._alarms = environment.open_db(b"alarms")
        self._txn = environment.begin(write=True)

    def bucket(self, number: int) -> BucketCopy:
        """The copy of a bucket; valid within the transaction."""
        return BucketCopy(self._txn, self._keys, self._alarms, number)

    def commit(self) -> None:
        """Make the changes visible to the next task; without it they are discarded.

        Raises:
            OSError: The disk is full.
        """
        try:
            self._txn.commit()
        except lmdb.Error as error:
            # LMDB reports a partial write as an input/output error.
            free = os.statvfs(self._folder)
            if free.f_bavail * free.f_frsize < _FULL_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folder)) from error
            raise

    def abort(self) -> None:
        """Discard the changes."""
        self._txn.abort()


def _environment(root: str, checkpoint_uri: str, partition: int) -> lmdb.Environment:
    folder = copy_folder(root, checkpoint_uri) / f"p{partition}"
    # A process must not open a file twice; a Python worker serves many tasks.
    if folder not in _open:
        prepare_copy(root, checkpoint_uri)
        folder.mkdir(exist_ok=True)
        _reserve(folder / "lock.mdb")
        _open[folder] = lmdb.open(
            str(folder),
            map_size=_MAP_BYTES,
            max_dbs=2,
            sync=False,
            metasync=False,
            # On a full disk a write call fails, but a write to a mapped page without space kills the process.
            writemap=False,
            readahead=False,
        )
    return _open[folder]


def _reserve(lock: Path) -> None:
    """Allocate the space of LMDB's lock file, which is written through a memory map."""
    file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(file, 0, _LOCK_BYTES)
    finally:
        os.close(file)
