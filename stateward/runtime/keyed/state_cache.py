"""The newest state of every key on local disk: what a look at a key reads.

Spark's state store is the record, and reading it from Python costs a hundred microseconds a key
(docs/decisions/0004). So each state partition has an LMDB file on the machine where its task runs, shared by
all Python workers there. It is a copy: a bucket whose stamp is not that of the record is thrown away and
loaded again. Nothing is lost with the folder.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import lmdb

from stateward.runtime.keyed.bucket_copy import BucketCopy
from stateward.runtime.keyed.copy_folders import copy_folder, prepare_copy

# Address space, not memory: the file grows as it fills, and the kernel drops what memory it needs back.
_MAP_BYTES = 64 * 1024**3
# A write that is cut short for want of room leaves less than a page, or what others free meanwhile.
_FULL_BYTES = 1024**2

# Of LMDB's lock file with its default number of readers.
_LOCK_BYTES = 8192

_open: dict[Path, lmdb.Environment] = {}


class StateCache:
    """The copy of one state partition, in one write transaction.

    One transaction at a time may write to it, others wait.

    Args:
        root: Where copies are kept, of several streams if need be; made if missing.
        checkpoint_uri: The checkpoint's folder.
        partition: Number of the state partition.

    Raises:
        CopyFolderError: The folder is somebody else's.
    """

    def __init__(self, root: str, checkpoint_uri: str, partition: int) -> None:
        self._folder = copy_folder(root, checkpoint_uri)
        environment = _environment(root, checkpoint_uri, partition)
        self._keys = environment.open_db(b"keys")
        self._alarms = environment.open_db(b"alarms")
        self._txn = environment.begin(write=True)

    def bucket(self, number: int) -> BucketCopy:
        """The copy of a bucket, for as long as the transaction lasts."""
        return BucketCopy(self._txn, self._keys, self._alarms, number)

    def commit(self) -> None:
        """Make the changes visible to the next task. Without it they are gone.

        Raises:
            OSError: The disk is full.
        """
        try:
            self._txn.commit()
        except lmdb.Error as error:
            # LMDB calls a write that was cut short an input/output error.
            free = os.statvfs(self._folder)
            if free.f_bavail * free.f_frsize < _FULL_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folder)) from error
            raise

    def abort(self) -> None:
        """Undo the changes."""
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
            # On a full disk a call that writes fails; a page of the map without room kills the process.
            writemap=False,
            readahead=False,
        )
    return _open[folder]


def _reserve(lock: Path) -> None:
    """Take the room of LMDB's lock file, which it writes through a map."""
    file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(file, 0, _LOCK_BYTES)
    finally:
        os.close(file)
