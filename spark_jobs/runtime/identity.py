"""Who a process is, so that its id is only looked up where it means something."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

import psutil

_START_TOLERANCE_S = 1.0
# A start above this is in seconds since 1970, as earlier releases noted it: no machine is up for 30 years.
_SINCE_1970_S = 1e9


@dataclass(frozen=True)
class ProcessIdentity:
    """A process: where it runs, its id there, and when it started (seconds since the machine did)."""

    host: str
    pid: int
    pid_started: float

    def is_gone(self, host: str) -> bool | None:
        """Whether the process has ended; None if it is not on ``host`` and cannot be seen from there."""
        if self.host != host:
            return None
        try:
            process = psutil.Process(self.pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
            since_1970 = self.pid_started > _SINCE_1970_S
            started = process.create_time() if since_1970 else _since_boot(process)
            return abs(started - self.pid_started) > _START_TOLERANCE_S
        except psutil.NoSuchProcess:
            return True


def host_identity() -> str:
    """``<hostname>/<boot id>/<pid namespace>`` of this process."""
    return "/".join((socket.gethostname(), _boot_id(), _pid_namespace()))


def driver_process() -> ProcessIdentity:
    """The process to signal: the JVM of ``spark-submit``, or this Python when it started the JVM itself."""
    pid = os.getppid() if "PYSPARK_GATEWAY_PORT" in os.environ else os.getpid()
    return ProcessIdentity(host_identity(), pid, _since_boot(psutil.Process(pid)))


def _since_boot(process: psutil.Process) -> float:
    # Both move alike when the clock is set: the kernel counts from its start, and derives the time of that.
    return process.create_time() - psutil.boot_time()


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"boot-{int(psutil.boot_time())}"


def _pid_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return "pid"
