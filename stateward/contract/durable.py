"""What is to survive a power loss: what is written is on the disk before anything refers to it.

On a local disk a written file is in the machine's memory until it is synced, and so is its name until its
folder is. Object stores and HDFS keep what they have acknowledged, so nothing is done there.
"""

from __future__ import annotations

import ctypes
import os
import uuid
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)


def local_path(uri: str) -> str | None:
    """The path of a URI on a local disk; None on any other storage."""
    import fsspec

    filesystem, path = fsspec.core.url_to_fs(uri)
    return str(path).rstrip("/") if "file" in filesystem.protocol else None


def sync_disks(uris: Iterable[str]) -> None:
    """Put all that was written on the disks of some folders, by whatever process, on them.

    One call for each disk: on a disk with a journal each file's own sync is as long as that of all together.

    Args:
        uris: The folders; those that are not on a local disk, or not there, are passed over.

    Raises:
        OSError: A disk did not take it. What is in memory may be lost then, so it has to be written again.
    """
    paths = [path for uri in uris if (path := local_path(uri)) is not None and Path(path).exists()]
    for path in {Path(path).stat().st_dev: path for path in paths}.values():
        sync_disk(path)


def sync_disk(path: str) -> None:
    """Sync the file system that has a path."""
    if not hasattr(_libc, "syncfs"):
        os.sync()  # not Linux
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        if _libc.syncfs(handle) != 0:
            raise OSError(ctypes.get_errno(), f"{os.strerror(ctypes.get_errno())}: {path}")
    finally:
        os.close(handle)


def replace_file(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace a file, whose folder is made: a reader finds the old one or the new one whole.

    Args:
        path: The file.
        content: All of it.
        durable: Whether that holds for a power loss too, and the new one survives it. Takes two syncs.

    Raises:
        OSError: It cannot be written; the old one is as it was.
    """
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    missing = list(takewhile(lambda folder: not folder.is_dir(), path.parents))
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with temporary.open("xb") as written:
            written.write(content)
            written.flush()
            if durable:
                os.fsync(written.fileno())
        temporary.replace(path)
    except BaseException:
        # A status is tried again every second: on a full disk the halves would fill what is left.
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        for folder in (path.parent, *(made.parent for made in missing)):
            _sync_names(folder)


def _sync_names(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
