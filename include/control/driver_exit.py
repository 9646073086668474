"""How a driver's process ended, and the sentence that says so. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from include.control.incident_words import GONE, SILENT
from include.control.status import ENDED, Control, Status

ENDED_HERE = "ended: "
"""How the reason begins in the document of a driver that the control plane itself has killed."""

_SIGNALLED = 128


@dataclass(frozen=True)
class Exit:
    """How the process ended that `spark-submit` has become, the JVM.

    Attributes:
        signal: The name of the signal that killed it, such as `SIGKILL`; None when it exited.
        code: Its exit code; None when it was killed.
    """

    signal: str | None = None
    code: int | None = None

    @property
    def signal_of_python(self) -> str | None:
        """The signal that killed the driver's Python, from which the JVM takes its exit code."""
        try:
            return signal.Signals((self.code or 0) - _SIGNALLED).name
        except ValueError:
            return None


def cause_of_end(control: Control, status: Status | None, found: Exit | None, last_words: str) -> str:
    """Say why a driver is gone.

    Args:
        control: What should be, with the launch.
        status: What the driver last said; None when it has said nothing.
        found: How its process ended.
        last_words: The last error in its log, if it has said nothing itself.
    """
    if control.reason.startswith(ENDED_HERE):
        return control.reason.removeprefix(ENDED_HERE)
    killed = _killed(found, control, status)
    if status is None:
        said = "; ".join(filter(None, (killed, last_words)))
        return f"{SILENT}: {said}" if said else SILENT
    if status.state in ENDED and not killed:
        return f"driver {status.state}: {status.message or 'no message'}"
    said = f": {status.message.rstrip('.')}" if status.state in ENDED and status.message else ""
    last = f"last reported {status.state}{said}, batch {status.batch_id}"
    return f"{GONE}: {killed} ({last})" if killed else f"{GONE} ({last})"


def _killed(found: Exit | None, control: Control, status: Status | None) -> str:
    """Say which process of the driver was killed, and by which signal; empty if none was."""
    if found is None:
        return ""
    if found.signal is not None:
        pid = control.launch.pid if control.launch else None
        return f"its JVM (process {pid}) was killed by {found.signal}"
    if found.signal_of_python is not None:
        pid = status.python_pid if status else None
        which = f"process {pid}" if pid else "a child of the JVM"
        return f"its Python ({which}) was killed by {found.signal_of_python}"
    return ""
