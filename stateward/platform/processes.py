"""Find and end the processes of one installation, by what they carry in their environment, and no other."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stateward.contract.names import ENV_DRIVER_STREAM, ENV_HOME, ENV_MANAGED, ENV_PART

if TYPE_CHECKING:
    import psutil


@dataclass(frozen=True)
class ManagedProcess:
    """A live process that this installation started.

    Attributes:
        process: handle that stays valid only for this very process, never for a later one with the same pid.
        part: the supervised part it descends from, None for the supervisor itself.
        stream: the stream whose driver it belongs to, None for anything else.
    """

    process: psutil.Process
    part: str | None
    stream: str | None


def find_owned(home: Path) -> list[ManagedProcess]:
    """Return the live processes of the installation at `home`, without this one and its ancestors."""
    import psutil

    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for process in psutil.process_iter():
        if process.pid in own:
            continue
        try:
            environ = process.environ()
            if environ.get(ENV_MANAGED) != "1" or environ.get(ENV_HOME) != str(home):
                continue
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
        except (psutil.Error, OSError):
            # Ended meanwhile, or another user's: not ours.
            continue
        found.append(ManagedProcess(process, environ.get(ENV_PART), environ.get(ENV_DRIVER_STREAM)))
    return found


def parts_only(owned: Iterable[ManagedProcess]) -> list[psutil.Process]:
    """Return the processes that belong to no driver."""
    return [one.process for one in owned if one.stream is None]


def drivers(owned: Iterable[ManagedProcess]) -> dict[str, list[psutil.Process]]:
    """Return, for each stream with a driver, that driver's processes."""
    result: dict[str, list[psutil.Process]] = {}
    for one in owned:
        if one.stream is not None:
            result.setdefault(one.stream, []).append(one.process)
    return result


def roots(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return those of `processes` whose parent is not among them: the ones to ask to drain."""
    import psutil

    pids = {process.pid for process in processes}
    result = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if process.ppid() not in pids:
                result.append(process)
    return result


def end(processes: Iterable[psutil.Process], grace_s: float) -> None:
    """Send SIGTERM, and SIGKILL to whatever is still there after `grace_s` seconds."""
    targets = list(processes)
    _signal(targets, signal.SIGTERM)
    _kill_what_stays(targets, grace_s)


def drain(processes: Iterable[psutil.Process], deadline_s: float) -> bool:
    """Ask a driver to drain, and kill it with its workers when it has not left in time.

    Args:
        processes: all processes of one or more drivers.
        deadline_s: seconds between SIGTERM and SIGKILL.

    Returns:
        Whether every one left by itself.
    """
    targets = list(processes)
    # Only the roots: a Python worker that is ended in mid-batch fails the batch instead of finishing it.
    _signal(roots(targets), signal.SIGTERM)
    return _kill_what_stays(targets, deadline_s)


def _kill_what_stays(processes: list[psutil.Process], deadline_s: float) -> bool:
    """Wait, kill what has not left after `deadline_s` seconds, and say whether all had."""
    # Not at the top, like psutil, which it imports.
    from stateward.control.launchers.processes import still_there

    alive = still_there(processes, deadline_s)
    _signal(alive, signal.SIGKILL)
    still_there(alive, 5)
    return not alive


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    import psutil

    for process in processes:
        # psutil checks the start time, so that a reused pid is never signalled.
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)
