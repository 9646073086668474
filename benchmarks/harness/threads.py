"""CPU time by thread, as Linux counts it."""

from __future__ import annotations

from typing import NamedTuple

import psutil


class Thread(NamedTuple):
    """A thread of a process; id 0 stands for all ended threads."""

    id: int
    name: str


ThreadTimes = dict[Thread, float]
"""CPU seconds, user and system, by thread."""

ENDED = Thread(0, "threads that have ended")


def thread_times(pid: int) -> ThreadTimes:
    """CPU time of every thread of a process; empty if the process does not exist."""
    try:
        process = psutil.Process(pid)
        times: ThreadTimes = {}
        for thread in process.threads():
            with open(f"/proc/{pid}/task/{thread.id}/comm") as name:  # noqa: PTH123
                times[Thread(thread.id, name.read().strip())] = thread.user_time + thread.system_time
        total = process.cpu_times()
    except (psutil.Error, OSError):
        return {}
    times[ENDED] = max(0.0, total.user + total.system - sum(times.values()))
    return times


def spent(before: ThreadTimes, after: ThreadTimes) -> ThreadTimes:
    """CPU seconds between two samples; a thread that ended in between counts as ended."""
    return {thread: used for thread, now in after.items() if (used := now - before.get(thread, 0.0)) > 0}
