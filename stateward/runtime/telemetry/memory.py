"""How much memory a driver takes: its JVM, its Python, and Spark's Python workers."""

from __future__ import annotations

from typing import Any

import psutil

# To find the children of a process, all processes of the machine are looked at.
_EVERY_S = 10.0


def tree_bytes(pid: int) -> int | None:
    """Resident memory of a process and all that come from it, bytes; None when it is gone.

    Pages that processes share count once for each: Python workers share some with the daemon they come from.
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
        return 0  # it has ended since


class MemoryGauge:
    """Measures a process tree now and then.

    Args:
        pid: Its root.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._due_s = float("-inf")

    def look(self, now_s: float) -> dict[str, Any]:
        """Status fields, if it is time for another look; else none.

        Args:
            now_s: A time that only goes on, seconds.
        """
        if now_s < self._due_s:
            return {}
        self._due_s = now_s + _EVERY_S
        return {"memory_bytes": tree_bytes(self._pid)}
