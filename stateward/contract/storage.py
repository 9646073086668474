"""The one door to storage: documents at a URI, read whole and written whole, and the files below a folder.

On a local disk a written file is in the machine's memory until it is synced, and so is its name until its
folder is. Object stores and HDFS keep what they have acknowledged, so nothing is synced there. No listing is
cached: other hosts write there, too.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any

from stateward.contract.clients.s3 import retry_refused, with_os_errors

_libc = ctypes.CDLL(None, use_errno=True)

# A file is visible there from its first byte on, so it is written under another name and then renamed.
_RENAMED = frozenset({"hdfs", "viewfs"})


class CorruptDocumentError(ValueError):
    """A document is there, and is not a JSON object."""


def read_json(uri: str) -> dict[str, Any] | None:
    """The JSON object at `uri`, or None when nothing is there.

    Raises:
        CorruptDocumentError: The content is not a JSON object.
        OSError: The storage cannot be read.
    """
    content = read_bytes(uri)
    if content is None:
        return None
    try:
        value = json.loads(content)
    except ValueError as error:
        found = f"{content[:80]!r} ({error})"
        raise CorruptDocumentError(f"{uri}: expected a JSON object, found {found}") from error
    if not isinstance(value, dict):
        raise CorruptDocumentError(f"{uri}: expected a JSON object, found {type(value).__name__}")
    return value


def read_text(uri: str) -> str | None:
    """The text at `uri`, or None when nothing is there; raises as `read_bytes`."""
    content = read_bytes(uri)
    return None if content is None else content.decode()


@with_os_errors
def read_bytes(uri: str) -> bytes | None:
    """The content of the file at `uri`, or None when there is no file.

    Raises:
        OSError: The storage cannot be read.
    """
    filesystem, path = filesystem_at(uri)
    try:
        return bytes(filesystem.cat_file(path))
    except (FileNotFoundError, IsADirectoryError):
        return None


def write_json(uri: str, document: Mapping[str, Any]) -> None:
    """Replace the document at `uri`; a reader sees the old one or the new one, never a part.

    The new one survives a power loss from then on (`replace_file`).

    Raises:
        OSError: The storage cannot be written.
        TypeError: `document` holds something JSON has no form for.
    """
    write_text(uri, json.dumps(document, separators=(",", ":")))


def write_text(uri: str, text: str) -> None:
    """Write `text` in the same way."""
    write_bytes(uri, text.encode())


def write_passing(uri: str, text: str) -> None:
    """Write `text` that only says how things are, again and again: a power loss may take it."""
    write_bytes(uri, text.encode(), durable=False)


@with_os_errors
def write_bytes(uri: str, content: bytes, *, durable: bool = True) -> None:
    """Write `content` in the same way; `durable` as of `replace_file`."""
    filesystem, path = filesystem_at(uri)
    protocols = _protocols(filesystem)
    if "file" in protocols:
        replace_file(Path(path), content, durable=durable)
    elif protocols & _RENAMED:
        _write_and_rename(filesystem, path, content)
    else:
        filesystem.pipe_file(path, content)  # object stores put a whole object at once


@with_os_errors
def exists(uri: str) -> bool:
    """Whether there is a file, an object or a folder at `uri`."""
    filesystem, path = filesystem_at(uri)
    return bool(filesystem.exists(path))


@with_os_errors
def delete(uri: str) -> None:
    """Remove a file, or a folder with everything in it; harmless if there is nothing.

    Raises:
        OSError: It cannot be removed.
    """
    filesystem, path = filesystem_at(uri)
    try:
        filesystem.rm(path, recursive=True)
    except FileNotFoundError:
        return


@with_os_errors
def list_names(uri: str) -> list[str]:
    """The last parts of the paths in the folder `uri`; empty if there is no such folder."""
    filesystem, path = filesystem_at(uri)
    try:
        found = [str(entry).rstrip("/") for entry in filesystem.ls(path, detail=False)]
    except FileNotFoundError:
        return []
    # On S3, Spark marks a folder by an empty object, which is listed in the folder as well.
    return [entry.rpartition("/")[2] for entry in found if entry != path]


@with_os_errors
def sizes_below(uri: str) -> dict[str, int]:
    """The size in bytes of each file below a folder, by its path there; empty if there is no such folder."""
    filesystem, root = filesystem_at(uri)
    try:
        found = filesystem.find(root, detail=True).items()
    except FileNotFoundError:
        return {}
    return {str(path)[len(root) + 1 :]: int(info["size"] or 0) for path, info in found if path[-1] != "/"}


@with_os_errors
def modified_at(uri: str) -> datetime | None:
    """When a file was changed, by the storage's clock, aware; None if there is none. May raise OSError."""
    filesystem, path = filesystem_at(uri)
    try:
        found: datetime = filesystem.modified(path)
    except FileNotFoundError:
        return None
    return found.astimezone(UTC)


def local_path(uri: str) -> str | None:
    """The path of a URI on a local disk; None on any other storage."""
    filesystem, path = filesystem_at(uri)
    return path if "file" in _protocols(filesystem) else None


@with_os_errors
def has_put_if_absent(uri: str) -> bool:
    """Try whether storage writes a file beside `uri` only where there is none; leaves nothing behind.

    A local disk and HDFS are known to: they link or rename without replacing.

    Raises:
        OSError: The storage cannot be written.
    """
    filesystem, path = filesystem_at(f"{uri.rstrip('/')}.put-if-absent-{uuid.uuid4().hex}")
    if _protocols(filesystem) & {"file", *_RENAMED}:
        return True
    filesystem.pipe_file(path, b"first", mode="create")
    try:
        filesystem.pipe_file(path, b"second", mode="create")
    except OSError as error:
        # s3fs has the status 412 of some servers as EINVAL.
        if not isinstance(error, FileExistsError) and error.errno != errno.EINVAL:
            raise
        return bool(filesystem.cat_file(path) == b"first")
    finally:
        with suppress(OSError):
            filesystem.rm_file(path)
    return False


def filesystem_at(uri: str) -> tuple[Any, str]:
    """The file system of a URI, of fsspec, and the path there without a slash at its end.

    Raises:
        OSError: The library for this storage is not installed.
    """
    import fsspec

    try:
        # Without it fsspec takes Hadoop's C library, whose rename replaces no file.
        if uri.startswith("hdfs://") and find_spec("hdfs_native") is None:
            raise ImportError("Install hdfs-native to access HDFS")
        filesystem, path = fsspec.core.url_to_fs(uri)
    except ImportError as error:
        raise OSError(f"{uri}: expected the library for this storage, found none: {error}.") from error
    if "s3" in _protocols(filesystem):
        retry_refused()
    # Not as an argument, which not every implementation accepts.
    filesystem.dircache.use_listings_cache = False
    return filesystem, str(path).rstrip("/")


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


def _write_and_rename(filesystem: Any, path: str, content: bytes) -> None:
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    try:
        filesystem.pipe_file(temporary, content)
        filesystem.mv(temporary, path, overwrite=True)
    except BaseException:
        with suppress(OSError):
            filesystem.rm_file(temporary)
        raise


def _protocols(filesystem: Any) -> set[str]:
    found = filesystem.protocol
    return {found} if isinstance(found, str) else set(found)


def _sync_names(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
