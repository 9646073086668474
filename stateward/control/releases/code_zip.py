"""The code of a driver or a job as one zip, as the executors of a cluster are sent it, and as it is stored.

What executors are sent is named by what is in it, so that they can say which code they run.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from stateward.contract.storage import replace_file

KEPT_ZIPS = 10
"""Zips that stay in a folder, the newest first."""

_DIGITS = 12
_PREFIX = "stateward-"


def zip_code(packages: Sequence[Path], folder: Path) -> Path:
    """Return a zip of packages, which is written if it is not in the folder yet.

    Args:
        packages: The folders of the packages, such as those of `spark_jobs` and `stateward`.
        folder: Takes the zip, and keeps the newest of its zips.

    Raises:
        OSError: It cannot be read or written.
    """
    members = [
        (f"{package.name}/{file.relative_to(package).as_posix()}", file.read_bytes())
        for package in packages
        for file in sorted(code_files(package))
    ]
    digest = hashlib.sha256()
    for name, content in members:
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    target = folder / f"{_PREFIX}{digest.hexdigest()[:_DIGITS]}.zip"
    if not target.is_file():
        replace_file(target, zipped(members))
    os.utime(target)
    found = sorted(folder.glob(f"{_PREFIX}*.zip"), key=lambda one: one.stat().st_mtime_ns)
    for old in found[:-KEPT_ZIPS]:
        old.unlink(missing_ok=True)
    return target


def code_files(path: Path) -> list[Path]:
    """Return a file, or the files below a folder without Python's caches."""
    return [path] if path.is_file() else [one for one in path.rglob("*") if _counts(one)]


def _counts(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def zipped(members: Iterable[tuple[str, bytes]]) -> bytes:
    """Return a zip of files, each with its path there."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name, data in members:
            # Without the time of the file: the same code makes the same zip.
            file.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return content.getvalue()
