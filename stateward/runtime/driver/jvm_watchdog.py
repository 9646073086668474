"""The JVM of a driver, seen from its Python: it ends with it, its compilers give way, its heap can shrink.

Without its JVM, Python would keep the lease and report a live stream.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from stateward.contract.process_identity import JvmGoneError, driver_process, is_submitted
from stateward.runtime.telemetry.status import StatusFile

_LOG = logging.getLogger(__name__)
_POLL_S = 1.0
# The kernel closes the sockets of a process that dies shortly before its children get another parent.
_SETTLE_S = 2.0
# Names of HotSpot's compiler threads, as the kernel has them.
_COMPILERS = ("C1 Compiler", "C2 Compiler")
_LOWEST = 19


class ParentJvm:
    """The JVM of ``spark-submit`` that started this process.

    Attributes:
        process: The process to signal: the JVM, or this one without ``spark-submit``.
        pid: Its process id; None without ``spark-submit``.

    Raises:
        JvmGoneError: It has ended before.
    """

    def __init__(self) -> None:
        self.process = driver_process()
        self.pid = self.process.pid if is_submitted() else None

    @property
    def is_gone(self) -> bool:
        """Whether it has ended."""
        return self.pid is not None and os.getppid() != self.pid

    def root_cause(self, error: Exception) -> Exception:
        """The cause of an error: the loss of the JVM, or the error itself."""
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

    def lower_compilers(self) -> None:
        """Give the compiler threads of the JVM the lowest priority.

        In the first minute they take ten seconds of CPU, which workers need more: what is not yet compiled
        runs meanwhile, slower. Threads that HotSpot adds later have the priority of the one that adds them.
        The JVM's own options for this print a warning for every user but root.
        """
        if self.pid is None:
            return
        for thread in Path(f"/proc/{self.pid}/task").glob("*"):
            # A thread can end meanwhile.
            with suppress(OSError):
                if (thread / "comm").read_text().startswith(_COMPILERS):
                    os.setpriority(os.PRIO_PROCESS, int(thread.name), _LOWEST)

    def give_back(self) -> None:
        """Collect garbage in the JVM, which then returns free memory as its options say (`DRIVER_CONF`)."""
        from pyspark import SparkContext

        jvm: Any = SparkContext._jvm
        if self.pid is not None and jvm is not None:
            jvm.java.lang.System.gc()

    def exit_when_gone(self, status: StatusFile) -> None:
        """Exit this process when the JVM is gone.

        The reverse needs no code: ``spark-submit`` exits with the Python process that it started.
        """
        if self.pid is None:
            return

        def watch() -> None:
            while not self.is_gone:
                threading.Event().wait(_POLL_S)
            _LOG.error("%s, leaving", self.gone())
            status.update(state="failed", message=str(self.gone()))
            # Other threads may hang in calls to the JVM; there is nothing to save.
            os._exit(1)

        threading.Thread(target=watch, name="parent", daemon=True).start()
