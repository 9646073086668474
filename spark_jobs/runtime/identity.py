"""Who a process is, so that its id is only looked up where it means something."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

import psutil

_START_TOLERANCE_S = 1.0


@dataclass(frozen=True)
class ProcessIdentity:
    """A process: where it runs, its id there, and when it started (seconds since 1970)."""

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
            return abs(process.create_time() - self.pid_started) > _START_TOLERANCE_S
        except psutil.NoSuchProcess:
            return True


def host_identity() -> str:
    """``<hostname>/<boot id>/<pid namespace>`` of this process."""
    return "/".join((socket.gethostname(), _boot_id(), _pid_namespace()))


def driver_process() -> ProcessIdentity:
    """The process to signal: the JVM of ``spark-submit``, or this Python when it started the JVM itself."""
    pid = os.getppid() if "PYSPARK_GATEWAY_PORT" in os.environ else os.getpid()
    return ProcessIdentity(host_identity(), pid, psutil.Process(pid).create_time())


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
