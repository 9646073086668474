"""A separate disk for tables, checkpoints and documents, which can be filled for a while."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# In memory, allocated only as it is used.
_SIZE = 8 * 2**30
_LEAST = 4096
_ATTEMPTS = 10


class DiskError(RuntimeError):
    """The disk cannot be filled or freed."""


@dataclass(frozen=True)
class Disk:
    """A file system in memory whose size can be changed while mounted.

    Attributes:
        folder: Where it is mounted.
        problem: Why it could not be mounted; None if it is.
    """

    folder: Path
    problem: str | None

    def fill(self) -> int:
        """Fill the disk, by reducing its size to its content.

        Returns:
            How many bytes are on it.

        Raises:
            DiskError: Its content grew at each attempt.
        """
        problem = ""
        for _ in range(_ATTEMPTS):
            found = os.statvfs(self.folder)
            # Size 0 means no limit, and cannot be changed again.
            used = max((found.f_blocks - found.f_bfree) * found.f_frsize, _LEAST)
            if not (problem := self._resize(used)):
                return used
        raise DiskError(f"{self.folder} cannot be made full: {problem}")

    def free(self) -> None:
        """Restore its size, if it was filled."""
        if self.problem is None and (problem := self._resize(_SIZE)):
            raise DiskError(f"{self.folder} cannot be given its size again: {problem}")

    def _resize(self, size: int) -> str:
        return _mount("-o", f"remount,size={size}", str(self.folder))


@contextmanager
def disk_at(folder: Path) -> Iterator[Disk]:
    """Mount a separate disk at a folder for a while; if that is not permitted, it has a `problem`."""
    folder.mkdir(parents=True, exist_ok=True)
    problem = _mount("-t", "tmpfs", "-o", f"size={_SIZE}", "none", str(folder))
    try:
        yield Disk(folder, problem or None)
    finally:
        if not problem:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _mount(*arguments: str) -> str:
    """Run `mount`; returns its error, or an empty text."""
    try:
        done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "there is no `mount`"
    return (done.stderr.strip() or f"exit code {done.returncode}") if done.returncode else ""
