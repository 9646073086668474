"""A checkpoint's folder copied file by file, and whether a copy is still what it was.

A checkpoint names itself in one place: the metadata of an operator has the full paths of its schema files. In
a copy they lead to the copy, so that it can be read when the original is gone.
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

import fsspec

from stateward.contract.job_steps import Report
from stateward.runtime.checkpoint.generations import is_beside
from stateward.runtime.checkpoint.hadoop_checksums import HadoopChecksum
from stateward.state.operation.errors import StateError

_CHUNK = 4 * 1024 * 1024
# Most files of a checkpoint are small, and an object store answers slowly.
_AT_ONCE = 8
_NAMES_ITSELF = re.compile(r"state/\d+/_metadata/v2/\d+")
_SCHEMA_PATH = re.compile(r".*(/state/\d+/_stateSchema/.+)")

T = TypeVar("T")


class CopyError(StateError):
    """A folder could not be copied; what was there of the copy is removed."""


class DamagedFileError(CopyError):
    """A file is not what was written."""


@dataclass(frozen=True)
class CopiedFile:
    """A file of a copy: its path in the folder, its size in bytes, and its SHA-256 in hexadecimal digits."""

    path: str
    size: int
    sha256: str


def paths_in(uri: str) -> list[str]:
    """The files of a checkpoint, by their paths in its folder, sorted.

    Other generations, which lie within a checkpoint from before there were any, are no part of it.
    """
    filesystem, root = fsspec.core.url_to_fs(uri)
    root = root.rstrip("/")
    try:
        found = [str(path)[len(root) + 1 :] for path in filesystem.find(root)]
    except FileNotFoundError:
        return []
    return sorted(path for path in found if not is_beside(path.partition("/")[0]))


def names_itself(path: str) -> bool:
    """Whether a file has the path of its checkpoint in it, so that it is another one in a copy."""
    return _NAMES_ITSELF.fullmatch(path) is not None


def crc_of(path: str) -> str:
    """Where Hadoop keeps the checksum of a file; it has to go when the file is changed."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.crc" if folder else f".{name}.crc"


def copy_checkpoint(
    source_uri: str, target_uri: str, report: Report = lambda part, what: None
) -> list[CopiedFile]:
    """Copy a checkpoint that nobody writes; files that are in the target already are replaced.

    No file of the copy shares its storage with the original, so that neither can change the other.

    Args:
        source_uri: Its folder.
        target_uri: The copy's.
        report: Told of each file.

    Returns:
        What was written, sorted by path.

    Raises:
        CopyError: A file cannot be read or written, or is damaged. A disk that is full is so no longer.
    """
    paths = paths_in(source_uri)
    changed = {crc_of(path) for path in paths if names_itself(path)}
    wanted = [path for path in paths if path not in changed]
    copied = itertools.count(1)

    def copy(path: str) -> CopiedFile:
        file = copy_file(path, source_uri, target_uri)
        report("copy", f"{next(copied)} of {len(wanted)} files")
        return file

    try:
        return _each(copy, wanted)
    except CopyError:
        remove(target_uri)
        raise


def copy_file(path: str, source_uri: str, target_uri: str) -> CopiedFile:
    """Copy one file; what is written is what the checksum is of.

    Raises:
        CopyError: It cannot be read or written.
        DamagedFileError: It is not what Hadoop's checksum beside it was made of.
    """
    try:
        return _copied(path, source_uri, target_uri)
    except OSError as error:
        raise CopyError(
            f"{source_uri}/{path} could not be copied to {target_uri}: {error}. The original is as it was. "
            "Make room, or mend what is named, and run it again."
        ) from error


def _copied(path: str, source_uri: str, target_uri: str) -> CopiedFile:
    content: bytes | None = None
    source, source_root = fsspec.core.url_to_fs(source_uri)
    checksum = _checksum_of(source, f"{source_root}/{path}")
    if names_itself(path):
        original = source.cat_file(f"{source_root}/{path}")
        _check(checksum, [original], f"{source_uri}/{path}")
        content = _relocated(original, target_uri)
    target, target_root = fsspec.core.url_to_fs(target_uri)
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
        return HadoopChecksum(source.cat_file(crc_of(path)))
    except (FileNotFoundError, ValueError):
        # As Hadoop does: without a checksum that can be read a file is taken as it is.
        return None


def _check(checksum: HadoopChecksum | None, rest: Sequence[bytes], uri: str) -> None:
    if checksum is None:
        return
    for chunk in rest:
        checksum.update(chunk)
    if not checksum.holds():
        raise DamagedFileError(
            f"{uri}: expected what {crc_of(uri).rpartition('/')[2]} was made of, found another content: the "
            "file was damaged after it had been written. Go back to a savepoint that is whole "
            "(`stateward state restore`)."
        )


def problems_of(uri: str, files: Sequence[CopiedFile]) -> list[str]:
    """What is wrong with a copy, a text for each file; empty if it is whole."""
    expected = {file.path: file for file in files}
    found = set(paths_in(uri))
    problems = [f"{path} is missing" for path in sorted(expected.keys() - found)]
    problems += [f"{path} was added" for path in sorted(found - expected.keys())]

    def differs(path: str) -> str | None:
        return _difference(uri, expected[path])

    looked = _each(differs, sorted(expected.keys() & found))
    return problems + [problem for problem in looked if problem is not None]


def checksums_of(uri: str) -> list[CopiedFile]:
    """The files of a checkpoint with their checksums, sorted by path; empty without a folder."""

    def read(path: str) -> CopiedFile:
        return CopiedFile(path, *_digest(uri, path))

    return _each(read, paths_in(uri))


def size_of(uri: str) -> int:
    """Bytes of all files in a folder."""
    filesystem, root = fsspec.core.url_to_fs(uri)
    return sum(int(entry["size"] or 0) for entry in filesystem.find(root, detail=True).values())


def remove(uri: str) -> None:
    """Remove a folder and all in it; nothing happens if it is not there."""
    filesystem, root = fsspec.core.url_to_fs(uri)
    if filesystem.exists(root):
        filesystem.rm(root, recursive=True)


def _difference(uri: str, file: CopiedFile) -> str | None:
    size, sha256 = _digest(uri, file.path)
    if size != file.size:
        return f"{file.path} has {size} bytes, and had {file.size}"
    return None if sha256 == file.sha256 else f"{file.path} has another content than it had"


def _digest(uri: str, path: str) -> tuple[int, str]:
    """Size and SHA-256 of a file."""
    filesystem, root = fsspec.core.url_to_fs(uri)
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
    """An operator's metadata, its schema files those of the copy: a version line, and a line of JSON."""
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
        # After a failure what has not begun is not worth beginning.
        pool.shutdown(cancel_futures=True)
