"""CPU time and memory of a driver and its broker, by role, and CPU time by thread, as Linux counts it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import psutil

BROKER, JVM, DRIVER, WORKERS = "broker", "driver's JVM", "driver's Python", "Python workers"
ROLES = (BROKER, JVM, DRIVER, WORKERS)


@dataclass(frozen=True)
class Usage:
    """The totals of all processes in a role.

    Attributes:
        cpu_s: CPU seconds, user and system, since they started; of those that have ended nothing.
        rss_bytes: Resident memory; shared pages count in each process.
    """

    cpu_s: float = 0.0
    rss_bytes: int = 0


def usage(driver_pid: int, broker_pid: int) -> dict[str, Usage]:
    """The resources of a driver's process tree and of the broker, by role."""
    root = psutil.Process(driver_pid)
    found = {role: Usage() for role in ROLES}
    for process in (psutil.Process(broker_pid), root, *root.children(recursive=True)):
        try:
            with process.oneshot():
                role = BROKER if process.pid == broker_pid else role_of(process)
                times, rss = process.cpu_times(), process.memory_info().rss
        except psutil.Error:
            continue
        so_far = found[role]
        found[role] = Usage(so_far.cpu_s + times.user + times.system, so_far.rss_bytes + rss)
    return found


def pss_bytes(driver_pid: int) -> int:
    """Memory of a driver's process tree; of a page that processes share each has its part."""
    root = psutil.Process(driver_pid)
    total = 0
    for process in (root, *root.children(recursive=True)):
        with suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total


def role_of(process: psutil.Process) -> str:
    """The role of a process of a driver's tree."""
    if process.name().startswith("java"):
        return JVM
    command = process.cmdline()
    # The daemon forks the workers, which keep its command line.
    return WORKERS if "stateward.runtime.driver.worker_daemon" in command else DRIVER


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
