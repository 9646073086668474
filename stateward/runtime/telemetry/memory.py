"""Memory of a driver: how much it has, and when a quiet one gives some back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psutil

# Finding the children of a process reads all processes of the machine.
_EVERY_S = 10.0
# Longer than a pause between two bursts: collecting garbage takes a third of a second of CPU.
_QUIET_S = 60.0
# A batch of fewer records needs no large heap.
_MANY = 1000


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


class DriverMemory:
    """Measures the memory of a process tree, and gives some back when the stream has become quiet.

    Args:
        pid: The root process.
        give_back: Called once, a minute after the last batch of many records.
    """

    def __init__(self, pid: int, give_back: Callable[[], None]) -> None:
        self._pid = pid
        self._give_back = give_back
        self._measure_at_s = float("-inf")
        self._give_back_at_s: float | None = None

    def look(self, now_s: float, records: int | None) -> dict[str, Any]:
        """Status fields if the next measurement is due, otherwise none.

        Args:
            now_s: Monotonic time, seconds.
            records: What the batch that has ended since the last call has read; None without one.
        """
        if records is not None and records >= _MANY:
            self._give_back_at_s = now_s + _QUIET_S
        elif self._give_back_at_s is not None and now_s >= self._give_back_at_s:
            self._give_back_at_s = None
            self._give_back()
        if now_s < self._measure_at_s:
            return {}
        self._measure_at_s = now_s + _EVERY_S
        return {"memory_bytes": tree_bytes(self._pid)}
