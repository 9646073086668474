"""Python must not outlive its JVM: it would keep a lease and look alive, and run nothing."""

from __future__ import annotations

import logging
import os
import threading
import time

from stateward.runtime.telemetry.status import StatusFile

_LOG = logging.getLogger(__name__)
_POLL_S = 1.0
# The kernel closes the sockets of a process that dies shortly before its children get another parent.
_SETTLE_S = 2.0


class JvmGoneError(RuntimeError):
    """The JVM of the driver is gone; whatever failed in Python failed for that."""


class ParentJvm:
    """The JVM that has started this process, under ``spark-submit``; None without it.

    Attributes:
        pid: Its process.
    """

    def __init__(self) -> None:
        self.pid = os.getppid() if "PYSPARK_GATEWAY_PORT" in os.environ else None

    @property
    def is_gone(self) -> bool:
        """Whether it has ended."""
        return self.pid is not None and os.getppid() != self.pid

    def blamed_for(self, error: Exception) -> Exception:
        """Return what lies behind an error: that the JVM is gone, or the error itself."""
        from py4j.protocol import Py4JError

        lost = isinstance(error, OSError | EOFError | Py4JError)
        deadline = time.monotonic() + (_SETTLE_S if lost else 0)
        while not self.is_gone:
            if self.pid is None or time.monotonic() >= deadline:
                return error
            threading.Event().wait(0.02)
        return self.gone()

    def gone(self) -> JvmGoneError:
        """The error to report."""
        return JvmGoneError(f"the driver's JVM (process {self.pid}) is gone")

    def exit_with_it(self, status: StatusFile) -> None:
        """End this process when the JVM is gone.

        The other direction needs nothing: ``spark-submit`` ends with the Python it started.
        """
        if self.pid is None:
            return

        def watch() -> None:
            while not self.is_gone:
                threading.Event().wait(_POLL_S)
            _LOG.error("%s, leaving", self.gone())
            status.update(state="failed", message=str(self.gone()))
            # Calls into the JVM may hang in other threads; nothing is left to be saved.
            os._exit(1)

        threading.Thread(target=watch, name="parent", daemon=True).start()
