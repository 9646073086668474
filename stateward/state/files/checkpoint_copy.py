"""Copies a checkpoint file by file, and checks a copy against the checksums of its files.

A checkpoint holds its own path in one place: an operator's metadata has the full paths of its schema files.
The copy gets its own paths there, so that it can be read when the original is gone.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from stateward.contract.clients.s3 import with_os_errors
from stateward.contract.process_output import Report
from stateward.contract.storage import delete, filesystem_at, sizes_below
from stateward.runtime.checkpoint.generations import is_beside
from stateward.runtime.checkpoint.hadoop_checksums import HadoopChecksum
from stateward.state.errors import StateError

_CHUNK = 4 * 1024 * 1024
# Most files of a checkpoint are small, and an object store answers slowly.
_AT_ONCE = 8
_NAMES_ITSELF = re.compile(r"state/\d+/_metadata/v2/\d+")
_SCHEMA_PATH = re.compile(r".*(/state/\d+/_stateSchema/.+)")

T = TypeVar("T")


class CopyError(StateError):
    """A folder could not be copied; the partial copy is removed."""


class DamagedFileError(CopyError):
    """A file does not match the checksum that was written with it."""


@dataclass(frozen=True)
class CopiedFile:
    """A file of a copy: its path in the folder, its size in bytes, and its SHA-256 in hexadecimal digits."""

    path: str
    size: int
    sha256: str


def paths_in(uri: str) -> list[str]:
    """The paths of a checkpoint's files in its folder, sorted.

    A checkpoint of an old release may contain the folders of later generations; these are left out.
    """
    return sorted(path for path in sizes_below(uri) if not is_beside(path.partition("/")[0]))


def has_own_path(path: str) -> bool:
    """Whether a file contains the path of its checkpoint, so that a copy of it differs."""
    return _NAMES_ITSELF.fullmatch(path) is not None


def crc_path(path: str) -> str:
    """Path of Hadoop's checksum of a file; remove it when the file is changed."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.crc" if folder else f".{name}.crc"


def copy_checkpoint(
    source_uri: str, target_uri: str, report: Report = lambda part, what: None
) -> list[CopiedFile]:
    """Copy a checkpoint that has no writer; files that exist in the target are replaced.

    The copy shares no storage with the original, so a change of one never changes the other.

    Args:
        source_uri: Folder of the checkpoint.
        target_uri: Folder of the copy.
        report: Called after each file.

    Returns:
        The files written, sorted by path.

    Raises:
        CopyError: A file cannot be read or written, or is damaged; the copy is removed, which frees its
            space.
    """
    paths = paths_in(source_uri)
    changed = {crc_path(path) for path in paths if has_own_path(path)}
    wanted = [path for path in paths if path not in changed]
    copied = itertools.count(1)

    def copy(path: str) -> CopiedFile:
        file = copy_file(path, source_uri, target_uri)
        report("copy", f"{next(copied)} of {len(wanted)} files")
        return file

    try:
        return _each(copy, wanted)
    except CopyError:
        delete(target_uri)
        raise


def copy_file(path: str, source_uri: str, target_uri: str) -> CopiedFile:
    """Copy one file; the checksum is computed over the bytes that are written.

    Raises:
        CopyError: It cannot be read or written.
        DamagedFileError: It does not match Hadoop's checksum beside it.
    """
    try:
        return _copied(path, source_uri, target_uri)
    except OSError as error:
        raise CopyError(
            f"{source_uri}/{path} could not be copied to {target_uri}: {error}. The original is unchanged. "
            "Free space or fix the reported problem, and run it again."
        ) from error


@with_os_errors
def _copied(path: str, source_uri: str, target_uri: str) -> CopiedFile:
    content: bytes | None = None
    source, source_root = filesystem_at(source_uri)
    checksum = _checksum_of(source, f"{source_root}/{path}")
    if has_own_path(path):
        original = source.cat_file(f"{source_root}/{path}")
        _check(checksum, [original], f"{source_uri}/{path}")
        content = _relocated(original, target_uri)
    target, target_root = filesystem_at(target_uri)
    place = f"{target_root}/{path}"
    if "file" in target.protocol:
        target.makedirs(os.path.dirname(place), exist_ok=True)  # noqa: PTH120 - fsspec speaks in strings
    digest, size = hashlib.sha256(), 0
    with target.open(place, "wb") as written:
        for chunk in [content] if content is not None else _chunks(source, f"{source_root}/{path}"):
            digest.update(chunk)
            size += len(chunk)
            written.write(chunk)
            if checksum is not None and content is None:
                checksum.update(chunk)
    if content is None:
        _check(checksum, [], f"{source_uri}/{path}")
    return CopiedFile(path, size, digest.hexdigest())


def _checksum_of(source: Any, path: str) -> HadoopChecksum | None:
    try:
        return HadoopChecksum(source.cat_file(crc_path(path)))
    except (FileNotFoundError, ValueError):
        # Hadoop does the same: without a readable checksum a file is not checked.
        return None


def _check(checksum: HadoopChecksum | None, rest: Sequence[bytes], uri: str) -> None:
    if checksum is None:
        return
    for chunk in rest:
        checksum.update(chunk)
    if not checksum.holds():
        raise DamagedFileError(
            f"{uri}: expected the content that {crc_path(uri).rpartition('/')[2]} describes, found another: "
            "the file was damaged after it was written. Restore an intact savepoint "
            "(`stateward state restore`)."
        )


def problems_of(uri: str, files: Sequence[CopiedFile]) -> list[str]:
    """The problems of a copy, one text for each file; empty if it is intact."""
    expected = {file.path: file for file in files}
    found = set(paths_in(uri))
    problems = [f"{path} is missing" for path in sorted(expected.keys() - found)]
    problems += [f"{path} was added" for path in sorted(found - expected.keys())]

    def differs(path: str) -> str | None:
        return _difference(uri, expected[path])

    looked = _each(differs, sorted(expected.keys() & found))
    return problems + [problem for problem in looked if problem is not None]


def checksums_of(uri: str) -> list[CopiedFile]:
    """The files of a checkpoint with their checksums, sorted by path; empty if there is no folder."""

    def read(path: str) -> CopiedFile:
        return CopiedFile(path, *_digest(uri, path))

    return _each(read, paths_in(uri))


def size_of(uri: str) -> int:
    """Total size of the files in a folder, bytes."""
    return sum(sizes_below(uri).values())


def _difference(uri: str, file: CopiedFile) -> str | None:
    size, sha256 = _digest(uri, file.path)
    if size != file.size:
        return f"{file.path} has {size} bytes, expected {file.size}"
    return None if sha256 == file.sha256 else f"{file.path} has different content"


@with_os_errors
def _digest(uri: str, path: str) -> tuple[int, str]:
    """Size and SHA-256 of a file."""
    filesystem, root = filesystem_at(uri)
    digest, size = hashlib.sha256(), 0
    for chunk in _chunks(filesystem, f"{root}/{path}"):
        digest.update(chunk)
        size += len(chunk)
    return size, digest.hexdigest()


def _chunks(filesystem: Any, path: str) -> Iterable[bytes]:
    with filesystem.open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _relocated(content: bytes, target_uri: str) -> bytes:
    """An operator's metadata (a version line and a line of JSON) with the copy's schema paths."""
    version, _, text = content.decode().partition("\n")
    document = json.loads(text)
    for store in document.get("stateStoreInfo", ()):
        if paths := store.get("stateSchemaFilePaths"):
            store["stateSchemaFilePaths"] = [
                _SCHEMA_PATH.sub(lambda found: target_uri + found[1], path) for path in paths
            ]
    return f"{version}\n{json.dumps(document, separators=(',', ':'))}".encode()


def _each(work: Callable[[str], T], paths: Sequence[str]) -> list[T]:
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        return list(pool.map(work, paths))
    finally:
        # After a failure the remaining files are not copied.
        pool.shutdown(cancel_futures=True)
