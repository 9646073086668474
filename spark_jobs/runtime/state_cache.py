"""The newest state of every key on local disk: what a look at a key reads.

Spark's state store is the record, and reading it from Python costs a hundred microseconds a key
(docs/decisions/0004). So each state partition has an LMDB file on the machine where its task runs, shared by
all Python workers there. It is a copy: a bucket whose stamp is not that of the record is thrown away and
loaded anew. Nothing is lost with the folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import lmdb

from spark_jobs.runtime.bucket_copy import BucketCopy

# Address space, not memory: the file grows as it fills, and the kernel drops what memory it needs back.
_MAP_BYTES = 64 * 1024**3
# Version of the entries in a copy (`bucket_copy`).
_LAYOUT = "v2"

_open: dict[str, lmdb.Environment] = {}


class StateCache:
    """The copy of one state partition, in one write transaction.

    Args:
        folder: The partition's folder; made if missing. One transaction at a time may write to it, others
            wait.
    """

    def __init__(self, folder: str) -> None:
        environment = _environment(folder)
        self._keys = environment.open_db(b"keys")
        self._alarms = environment.open_db(b"alarms")
        self._txn = environment.begin(write=True)

    def bucket(self, number: int) -> BucketCopy:
        """The copy of a bucket, for as long as the transaction lasts."""
        return BucketCopy(self._txn, self._keys, self._alarms, number)

    def commit(self) -> None:
        """Make the changes visible to the next task. Without it they are gone."""
        self._txn.commit()

    def abort(self) -> None:
        """Undo the changes."""
        self._txn.abort()


def partition_folder(root: str, checkpoint_uri: str, partition: int) -> str:
    """The folder of a partition's copy.

    ``root`` is the stream's own: what else is in it is removed. The boot is part of the folder's name: the
    copy is not synchronised to disk, which a crash of the machine, though not of a process, can tear. So is
    the layout, so that a release with another one makes its copies anew.
    """
    checkpoint = hashlib.sha256(checkpoint_uri.encode()).hexdigest()[:12]
    return str(Path(root) / f"{checkpoint}-{_boot()}-{_LAYOUT}" / f"p{partition}")


def _environment(folder: str) -> lmdb.Environment:
    # A process must not open a file twice; a Python worker serves many tasks.
    if folder not in _open:
        _remove_others(Path(folder).parent)
        Path(folder).mkdir(parents=True, exist_ok=True)
        _open[folder] = lmdb.open(
            folder,
            map_size=_MAP_BYTES,
            max_dbs=2,
            sync=False,
            metasync=False,
            writemap=True,
            readahead=False,
        )
    return _open[folder]


def _remove_others(copies: Path) -> None:
    """Remove the copies of other checkpoints of the stream, and of earlier boots: nothing will read them.

    Should one be in use after all, its stamps are not found the next time, and it is made anew.
    """
    for other in copies.parent.glob("*"):
        if other != copies:
            shutil.rmtree(other, ignore_errors=True)


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8]
    except OSError:
        return f"pid{os.getppid()}"
