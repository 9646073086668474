"""Where a driver is, how it ended, and the failure that this is. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from stateward.contract.stream_control import GONE, SILENT, Control, Failure, FailureKind
from stateward.contract.stream_status import ENDED, Status

_SIGNALLED = 128


class Presence(Enum):
    """Where the driver of the newest launch is."""

    ALIVE = "alive"
    GONE = "gone"
    ELSEWHERE = "elsewhere"
    """On another host, or in a cluster that does not answer: only its status can tell."""


@dataclass(frozen=True)
class Placement:
    """How a driver gets its container from a cluster.

    Attributes:
        took: How long it has waited for it, by the cluster's own clock.
        waits_for: What it waits for, and what the cluster has free; empty once it has its container.
    """

    took: timedelta = timedelta()
    waits_for: str = ""


PLACED = Placement()
"""One that did not wait, or that nothing is known of."""


@dataclass(frozen=True)
class Exit:
    """How the process ended that `spark-submit` has become, the JVM, or that of a cluster's container.

    Attributes:
        signal: The name of the signal that killed it, such as `SIGKILL`; None when it exited.
        code: Its exit code; None when it was killed.
        kind: What the failure is, if the cluster has ended it.
        said: What the cluster says of that.
    """

    signal: str | None = None
    code: int | None = None
    kind: FailureKind | None = None
    said: str = ""

    @property
    def signal_of_python(self) -> str | None:
        """The signal that killed the driver's Python, from which the JVM takes its exit code."""
        try:
            return signal.Signals((self.code or 0) - _SIGNALLED).name
        except ValueError:
            return None


@dataclass(frozen=True)
class Ending:
    """How a driver has ended.

    Attributes:
        exit: How its process ended; None if that is not known.
        log: The end of its log; may be empty.
    """

    exit: Exit | None
    log: str


def failure_of_end(control: Control, status: Status | None, found: Exit | None, last_words: str) -> Failure:
    """Say why a driver is gone.

    Args:
        control: What should be, with the launch.
        status: What the driver last said; None when it has said nothing.
        found: How its process ended.
        last_words: The last error in its log, if it has said nothing itself.
    """
    if control.launch is not None and control.launch.end_reason:
        return Failure("ended", control.launch.end_reason)
    by, killed = _killed(found, control, status)
    if status is None:
        said = "; ".join(filter(None, (killed, last_words)))
        otherwise: FailureKind = "killed" if by else "not_started" if last_words else "gone"
        return Failure(_kind(found) or otherwise, f"{SILENT}: {said}" if said else SILENT, by)
    if status.state in ENDED and not killed:
        return Failure("reported", f"driver {status.state}: {status.message or 'no message'}")
    said = f": {status.message.rstrip('.')}" if status.state in ENDED and status.message else ""
    last = f"last reported {status.state}{said}, batch {status.batch_id}"
    cause = f"{GONE}: {killed} ({last})" if killed else f"{GONE} ({last})"
    return Failure(_kind(found) or ("killed" if by else "gone"), cause, by)


def _kind(found: Exit | None) -> FailureKind | None:
    return found.kind if found else None


def _killed(found: Exit | None, control: Control, status: Status | None) -> tuple[str | None, str]:
    """Return the signal that killed a process of the driver, and what killed which; None if none did."""
    if found is None:
        return None, ""
    if found.said:
        return None, found.said
    if found.signal is not None:
        pid = control.launch.pid if control.launch else None
        return found.signal, f"its JVM{f' (process {pid})' if pid else ''} was killed by {found.signal}"
    if by := found.signal_of_python:
        pid = status.python_pid if status else None
        which = f"process {pid}" if pid else "a child of the JVM"
        return by, f"its Python ({which}) was killed by {by}"
    return None, ""
