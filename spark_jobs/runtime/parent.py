"""Python must not outlive its JVM: it would keep a lease and look alive, and run nothing."""

from __future__ import annotations

import logging
import os
import threading

from spark_jobs.runtime.status import StatusFile

_LOG = logging.getLogger(__name__)
_POLL_S = 1.0


def exit_with_jvm(status: StatusFile) -> None:
    """Under ``spark-submit``, end this process when its parent, the JVM, is gone.

    The other direction needs nothing: ``spark-submit`` ends with the Python it started.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            threading.Event().wait(_POLL_S)
        _LOG.error("the JVM %d is gone, leaving", parent)
        status.update(state="failed", message=f"the driver's JVM (process {parent}) is gone")
        # Calls into the JVM may hang in other threads; nothing is left to be saved.
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()
