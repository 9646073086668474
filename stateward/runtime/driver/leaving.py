"""A driver leaves when it is asked to, and ends itself when it does not get there.

The control plane ends a driver that does not drain, but not one on another host.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

from stateward.contract.process_output import DriverExit
from stateward.runtime.driver.jvm_watchdog import ParentJvm
from stateward.runtime.telemetry.status import StatusFile

_LOG = logging.getLogger(__name__)
_POLL_S = 1.0
_REPORT_S = 5.0


class Leaving:
    """Whether the driver has to leave, and why.

    Args:
        asked: Reads why it has to leave; None while it has not.
        deadline_s: How long it may take from then on; 0 for any time.
        overdue: Called in a thread with the reason when the deadline has passed.
    """

    def __init__(
        self, asked: Callable[[], str | None], deadline_s: float, overdue: Callable[[str], None]
    ) -> None:
        self._asked = asked
        self._deadline_s = deadline_s
        self._overdue = overdue
        self._requested = threading.Event()
        self._left = threading.Event()
        self.reason = ""

    @property
    def is_requested(self) -> bool:
        """Whether it has been asked."""
        return self._requested.is_set()

    @property
    def message(self) -> str:
        """What the status says of a drain."""
        return f"drained: {self.reason}"

    def start(self) -> None:
        """Read every second whether it is asked, in a thread: a hanging batch may keep the others."""
        threading.Thread(target=self._watch, name="leaving", daemon=True).start()

    def request(self, reason: str) -> None:
        """Ask it to leave; the first reason stays."""
        self.reason = self.reason or reason
        self._requested.set()

    def wait(self, seconds: float) -> None:
        """Wait, at most until it is asked."""
        self._requested.wait(seconds)

    def done(self) -> None:
        """Say that it has left in time."""
        self._left.set()

    def _watch(self) -> None:
        while not self.is_requested:
            if reason := self._asked():
                self.request(reason)
            elif self._left.wait(_POLL_S):
                return
        if self._deadline_s and not self._left.wait(self._deadline_s):
            self._overdue(self.reason)


def end_overdue(stream: str, status: StatusFile, jvm: ParentJvm, deadline_s: float, reason: str) -> None:
    """End this process and its JVM, whatever their threads do; the next start repairs the checkpoint."""
    message = (
        f"stream {stream}: expected the driver to drain within {deadline_s:.0f} s ({reason}), found it still"
        " at work, and ended it. The next driver commits the batch that was planned."
    )
    _LOG.error(message)
    # What it hangs on may be the storage.
    fields = {"state": "failed", "message": message}
    report = threading.Thread(target=status.update, kwargs=fields, daemon=True)
    report.start()
    report.join(_REPORT_S)
    if jvm.pid is not None and not jvm.is_gone:
        os.kill(jvm.pid, signal.SIGKILL)
    os._exit(DriverExit.FAILED)


def leave(code: int) -> NoReturn:
    """End this process with its exit code, without the interpreter's own end.

    A thread of a native library that is still at work then aborts the process: the control plane would read
    134 instead of the code.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
