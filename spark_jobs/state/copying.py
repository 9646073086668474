"""Copies of whole folders, with the SHA-256 of each file taken on the way."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import fsspec

Report = Callable[[str, str], None]
"""Takes the name of a step, and how far it has got."""

_CHUNK_BYTES = 1024 * 1024
# Files of a checkpoint are many and small, so on an object store the wait for each is what takes the time.
_THREADS = 8


class CopyError(RuntimeError):
    """A folder could not be copied, or a copy is not what was copied."""


@dataclass(frozen=True, order=True)
class CopiedFile:
    """One file of a folder.

    Attributes:
        path: Within the folder, with ``/`` between the parts.
        size: Bytes.
        sha256: Of its content, in hexadecimal.
    """

    path: str
    size: int
    sha256: str


def copy_tree(source_uri: str, target_uri: str, report: Report) -> list[CopiedFile]:
    """Copy every file of a folder, hidden ones too; nothing else in the target is touched.

    No file of the copy shares its storage with the original, so that neither can change the other.

    Args:
        source_uri: The folder, which nobody may be writing.
        target_uri: Where the copy goes; made if missing.
        report: Called with ``copy`` after each file.

    Returns:
        The files in the order of their paths, with the checksums of what was read.

    Raises:
        CopyError: There is no such folder, a file is gone before it was copied, or its copy has another size.
    """
    source, source_root = _filesystem(source_uri)
    target, target_root = _filesystem(target_uri)
    paths = _paths(source, source_root)
    if not paths:
        raise CopyError(f"expected files in {source_uri}, found none: check the folder")

    def copy(path: str) -> CopiedFile:
        return _copy_file(source, f"{source_root}/{path}", target, f"{target_root}/{path}", path)

    found, copied_bytes = [], 0
    with ThreadPoolExecutor(_THREADS) as pool:
        for file in pool.map(copy, paths):
            found.append(file)
            copied_bytes += file.size
            report("copy", f"{len(found)} of {len(paths)} files, {copied_bytes} bytes")
    return found


def checksums_of(uri: str) -> list[CopiedFile]:
    """The files of a folder with their checksums, in the order of their paths; empty without a folder."""
    filesystem, root = _filesystem(uri)
    with ThreadPoolExecutor(_THREADS) as pool:
        paths = _paths(filesystem, root)
        return list(pool.map(lambda path: _read(filesystem, f"{root}/{path}", path), paths))


def deviations(uri: str, expected: list[CopiedFile]) -> list[str]:
    """What is not as expected in a folder, a sentence per file; empty if it is whole."""
    found = {file.path: file for file in checksums_of(uri)}
    wanted = {file.path: file for file in expected}
    lines = [f"{path} is missing" for path in sorted(wanted.keys() - found.keys())]
    lines += [f"{path} was not expected" for path in sorted(found.keys() - wanted.keys())]
    for path in sorted(wanted.keys() & found.keys()):
        here, there = found[path], wanted[path]
        if here.size != there.size:
            lines.append(f"{path} has {here.size} bytes, expected {there.size}")
        elif here != there:
            lines.append(f"{path} has another content (SHA-256 {here.sha256}, expected {there.sha256})")
    return lines


def is_empty(uri: str) -> bool:
    """Whether there is no file under ``uri``."""
    filesystem, root = _filesystem(uri)
    return not _paths(filesystem, root)


def size_of(uri: str) -> int:
    """Bytes of all files in a folder."""
    filesystem, root = _filesystem(uri)
    return sum(int(entry["size"] or 0) for entry in filesystem.find(root, detail=True).values())


def remove(uri: str) -> None:
    """Remove a file, or a folder with all that is in it, if it is there."""
    filesystem, root = _filesystem(uri)
    if filesystem.exists(root):
        filesystem.rm(root, recursive=True)


def _filesystem(uri: str) -> tuple[Any, str]:
    filesystem, path = fsspec.core.url_to_fs(uri.rstrip("/"))
    # A listing that was kept from before the last change would hide files.
    filesystem.invalidate_cache()
    return filesystem, str(path).rstrip("/")


def _paths(filesystem: Any, root: str) -> list[str]:
    return sorted(str(path)[len(root) :].lstrip("/") for path in filesystem.find(root))


def _copy_file(source: Any, source_path: str, target: Any, target_path: str, path: str) -> CopiedFile:
    digest, size = hashlib.sha256(), 0
    target.makedirs(target_path.rpartition("/")[0], exist_ok=True)
    try:
        with source.open(source_path, "rb") as reader, target.open(target_path, "wb") as writer:
            while chunk := reader.read(_CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
                writer.write(chunk)
    except FileNotFoundError as error:
        raise CopyError(
            f"{source_path} is gone since the folder was listed: is the stream running? Stop it and try again"
        ) from error
    written = int(target.info(target_path)["size"])
    if written != size:
        raise CopyError(
            f"{target_path}: expected {size} bytes, found {written}: check the storage, try again"
        )
    return CopiedFile(path, size, digest.hexdigest())


def _read(filesystem: Any, full_path: str, path: str) -> CopiedFile:
    digest, size = hashlib.sha256(), 0
    with filesystem.open(full_path, "rb") as reader:
        while chunk := reader.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return CopiedFile(path, size, digest.hexdigest())
