"""Which process it is: an id means something only on one boot of one host, and is used again later."""

from __future__ import annotations

import functools
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import psutil

# The time of the boot, from which starts are counted, is kept in whole seconds and moves when the clock is
# corrected: two readings of one start can differ by more than a second. A process of the same id and start
# is taken for the one that was meant, and ids come round only after thousands of processes.
_START_TOLERANCE_S = 2.0
# A start above this is in seconds since 1970, as earlier releases noted it: no machine is up for 30 years.
_SINCE_1970_S = 1e9
_GATEWAY_PORT = "PYSPARK_GATEWAY_PORT"
_ANSWER_S = 30.0


class JvmGoneError(RuntimeError):
    """The JVM of the driver is gone, which caused all failures in Python."""


class ProcessIdentity(msgspec.Struct, frozen=True):
    """A process: where it runs, its id there, and when it started (seconds since the machine did)."""

    host: str
    pid: int
    pid_started: float

    def is_gone(self, host: str) -> bool | None:
        """Whether the process has ended; None if it cannot be seen from `host`."""
        import psutil

        try:
            return None if self.host != host else not _is_there(self.pid, self.pid_started)
        except psutil.AccessDenied:
            return None


@functools.cache
def host_identity() -> str:
    """`<hostname>/<boot id>/<pid namespace>` of this process."""
    import psutil

    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = f"boot-{int(psutil.boot_time())}"
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = "pid"
    return f"{socket.gethostname()}/{boot}/{namespace}"


def is_submitted() -> bool:
    """Whether the JVM of `spark-submit` started this Python."""
    return _GATEWAY_PORT in os.environ


def driver_process() -> ProcessIdentity:
    """The process to signal: the JVM of `spark-submit`, or this Python when it started the JVM itself.

    Raises:
        JvmGoneError: The JVM has ended.
    """
    import psutil

    pid = os.getppid() if is_submitted() else os.getpid()
    identity = ProcessIdentity(host_identity(), pid, _since_boot(psutil.Process(pid)))
    if is_submitted():
        _require_gateway(int(os.environ[_GATEWAY_PORT]))
    return identity


def _require_gateway(port: int) -> None:
    """Check that the JVM lives, after the id of the parent was read.

    A JVM that has died leaves its Python to another parent, often to process 1, which lives for ever. In a
    container the JVM itself can be process 1. Only the JVM listens on this port.
    """
    try:
        socket.create_connection(("127.0.0.1", port), _ANSWER_S).close()
    except OSError as error:
        raise JvmGoneError(
            f"expected the JVM of this driver on port {port} of 127.0.0.1, found: {error}. It was killed"
            " while its Python started. Its own log says how; start the driver again."
        ) from error


def started_at(pid: int) -> float | None:
    """When a process started, in seconds since the machine did; None when it does not live."""
    import psutil

    try:
        return _start_of(pid)
    except psutil.AccessDenied:
        return None


def is_alive(pid: int, started: float | None) -> bool:
    """Whether the process that had this id when it started at `started` still lives."""
    import psutil

    try:
        return _is_there(pid, started)
    except psutil.AccessDenied:
        return False


def _is_there(pid: int, started: float | None) -> bool:
    import psutil

    found = _start_of(pid)
    if found is None or started is None:
        return found is not None
    if started > _SINCE_1970_S:
        found += psutil.boot_time()
    return abs(found - started) <= _START_TOLERANCE_S


def _start_of(pid: int) -> float | None:
    import psutil

    try:
        process = psutil.Process(pid)
        # A container's first process does not always collect its dead.
        return None if process.status() == psutil.STATUS_ZOMBIE else _since_boot(process)
    except psutil.NoSuchProcess:
        return None


def _since_boot(process: psutil.Process) -> float:
    import psutil

    # Both move alike when the clock is set: the kernel counts from its start, and derives the time of that.
    return process.create_time() - psutil.boot_time()
