"""A disk of its own for the tables, checkpoints and documents, so that it can be full for a while."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# It is memory, and only what is used of it is taken.
_SIZE = 8 * 2**30
_LEAST = 4096
_ATTEMPTS = 10


class DiskError(RuntimeError):
    """The disk cannot be made full, or not be freed."""


@dataclass(frozen=True)
class Disk:
    """A file system in memory, whose size can be changed while it is used.

    Attributes:
        folder: Where it is mounted.
        problem: Why there is none; None when there is one.
    """

    folder: Path
    problem: str | None

    def fill(self) -> int:
        """Leave no room, by giving it the size of what is on it; nothing else of the machine is touched.

        Returns:
            How many bytes are on it.

        Raises:
            DiskError: It grew each time before its size could be set.
        """
        problem = ""
        for _ in range(_ATTEMPTS):
            found = os.statvfs(self.folder)
            # Without a size it has no limit, and cannot be given one again.
            used = max((found.f_blocks - found.f_bfree) * found.f_frsize, _LEAST)
            if not (problem := self._resize(used)):
                return used
        raise DiskError(f"{self.folder} cannot be made full: {problem}")

    def free(self) -> None:
        """Give it its size again; nothing happens when it has it."""
        if self.problem is None and (problem := self._resize(_SIZE)):
            raise DiskError(f"{self.folder} cannot be given its size again: {problem}")

    def _resize(self, size: int) -> str:
        return _mount("-o", f"remount,size={size}", str(self.folder))


@contextmanager
def disk_at(folder: Path) -> Iterator[Disk]:
    """Mount a disk of its own at a folder for a while; where that is not allowed, it has a `problem`."""
    folder.mkdir(parents=True, exist_ok=True)
    problem = _mount("-t", "tmpfs", "-o", f"size={_SIZE}", "none", str(folder))
    try:
        yield Disk(folder, problem or None)
    finally:
        if not problem:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _mount(*arguments: str) -> str:
    """Run `mount`, and return what it complains about; nothing if it has done it."""
    try:
        done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "there is no `mount`"
    return (done.stderr.strip() or f"exit code {done.returncode}") if done.returncode else ""
