"""CPU time and memory of a driver and its broker, by role."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

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
