"""Memory of a driver: its JVM, its Python process and Spark's Python workers."""

from __future__ import annotations

from typing import Any

import psutil

# Finding the children of a process reads all processes of the machine.
_EVERY_S = 10.0


def tree_bytes(pid: int) -> int | None:
    """Resident memory of a process and its descendants, bytes; None if it is gone.

    Shared pages count once per process: Python workers share pages with their daemon.
    """
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.Error:
        return None
    return sum(_resident(process) for process in family)


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0  # it has exited meanwhile


class MemoryGauge:
    """Measures the memory of a process tree every few seconds.

    Args:
        pid: The root process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._due_s = float("-inf")

    def sample(self, now_s: float) -> dict[str, Any]:
        """Status fields if the next measurement is due, otherwise none.

        Args:
            now_s: Monotonic time, seconds.
        """
        if now_s < self._due_s:
            return {}
        self._due_s = now_s + _EVERY_S
        return {"memory_bytes": tree_bytes(self._pid)}
