"""Driver processes on this host: whose they are, and their end.

What a driver leaves behind is found by the marks in its environment; whether one process lives, by its
identity (`stateward.contract.process_identity`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil

from stateward.contract.names import ENV_DRIVER_RUN_ID, ENV_DRIVER_STREAM, ENV_HOME, ENV_OPERATION


def find_by_env(home: Path, stream: str, run_id: str | None = None) -> list[psutil.Process]:
    """Find the live processes of a stream's drivers, the oldest first.

    Args:
        home: `STATEWARD_HOME`; another installation's drivers are none of our business.
        stream: The stream's name.
        run_id: Only those of this launch; all launches when None.

    Returns:
        The processes whose environment carries the marks. Those of other users cannot be read,
        and so are not found.
    """
    marks = {ENV_HOME: str(home), ENV_DRIVER_STREAM: stream}
    return _with_marks(marks if run_id is None else {**marks, ENV_DRIVER_RUN_ID: run_id})


def drivers(home: Path) -> dict[str, tuple[str, float]]:
    """Find the drivers of an installation on this host.

    Returns:
        By the name of the stream the newest launch and when its first process started, seconds since 1970.
    """
    found: dict[str, tuple[str, float]] = {}
    for process in _with_marks({ENV_HOME: str(home)}, ENV_DRIVER_STREAM, ENV_DRIVER_RUN_ID):
        with contextlib.suppress(psutil.Error, OSError, KeyError):
            environment, since = process.environ(), process.create_time()
            stream, run_id = environment[ENV_DRIVER_STREAM], environment[ENV_DRIVER_RUN_ID]
            if stream not in found or found[stream][0] != run_id:
                found[stream] = run_id, since
    return found


def of_operation(home: Path, operation: str) -> list[psutil.Process]:
    """Find the live processes of a state operation, the oldest first; see `marked`."""
    return _with_marks({ENV_HOME: str(home), ENV_OPERATION: operation})


def _with_marks(marks: Mapping[str, str], *any_value: str) -> list[psutil.Process]:
    """Processes with these marks in their environment, and others of whatever value, the oldest first."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            has = marks.items() <= environment.items() and environment.keys() >= set(any_value)
            if has and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return sorted(found, key=lambda process: process.create_time())


def terminate(pid: int) -> None:
    """Ask one process to leave; nothing happens when it has left already."""
    try:
        psutil.Process(pid).terminate()
    except psutil.NoSuchProcess:
        return


def kill(processes: Iterable[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Kill processes and wait until they are gone.

    Args:
        processes: What to kill. psutil checks that each still is the process it was.
        timeout_s: How long to wait, in seconds.

    Returns:
        Those that are still there: blocked in the kernel, or of another user.
    """
    killed = []
    for process in processes:
        try:
            process.kill()
            killed.append(process)
        except psutil.NoSuchProcess:
            continue
    return still_there(killed, timeout_s)


def still_there(processes: Iterable[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Return the processes that have not ended after `timeout_s` seconds; none, as soon as all have."""
    # Not psutil.wait_procs: it waits for zombies too, which only their parent can end.
    deadline, waiting = time.monotonic() + timeout_s, list(processes)
    while left := [process for process in waiting if _lives(process)]:
        if time.monotonic() >= deadline:
            return left
        time.sleep(0.02)
    return []


def _lives(process: psutil.Process) -> bool:
    try:
        # psutil checks the start time: another process of the same pid is not this one.
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def with_process(family: list[psutil.Process], pid: int | None) -> list[psutil.Process]:
    """Add one process to others, unless it is among them or gone."""
    if pid is None or any(process.pid == pid for process in family):
        return family
    try:
        return [psutil.Process(pid), *family]
    except psutil.NoSuchProcess:
        return family
