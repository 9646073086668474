"""The newest state of every key on local disk: what a look at a key reads.

Spark's state store is the record, and reading it from Python costs a hundred microseconds a key
(docs/decisions/0004). So each state partition has an LMDB file on the machine where its task runs, shared by
all Python workers there. It is a copy: a bucket whose stamp is not that of the record is thrown away and
loaded again. Nothing is lost with the folder.
"""

from __future__ import annotations

from pathlib import Path

import lmdb

from spark_jobs.runtime.bucket_copy import BucketCopy
from spark_jobs.runtime.copy_folders import copy_folder, prepare_copy

# Address space, not memory: the file grows as it fills, and the kernel drops what memory it needs back.
_MAP_BYTES = 64 * 1024**3

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
        environment = _environment(root, checkpoint_uri, partition)
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


def _environment(root: str, checkpoint_uri: str, partition: int) -> lmdb.Environment:
    folder = copy_folder(root, checkpoint_uri) / f"p{partition}"
    # A process must not open a file twice; a Python worker serves many tasks.
    if folder not in _open:
        prepare_copy(root, checkpoint_uri)
        folder.mkdir(exist_ok=True)
        _open[folder] = lmdb.open(
            str(folder),
            map_size=_MAP_BYTES,
            max_dbs=2,
            sync=False,
            metasync=False,
            writemap=True,
            readahead=False,
        )
    return _open[folder]
