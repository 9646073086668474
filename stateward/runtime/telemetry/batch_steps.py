"""How a batch job says what it is doing, on its standard output (`stateward/control/jobs/batch_job.py`).

A line a step: ``@step``, a part of the work, and what happens to it, separated by tabs. ``@error`` and the
reason is the last line of a job that could not do its work. All else goes to the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from stateward.contract.exit_codes import JobExit

Report = Callable[[str, str], None]
"""Takes a part of the work and what happens to it; `READY` ends a part."""

READY = "ready"


def begin_log() -> None:
    """Let the job's log say what our own code logs, and of the gateway to Java only what is odd."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)


def say(part: str, what: str) -> None:
    """Report progress."""
    # In one piece: files are copied by several threads, and their lines must not mix.
    print(f"@step\t{part}\t{what}\n", end="", flush=True)  # noqa: T201


def tell(error: object) -> JobExit:
    """Say in one line why the work could not be done, and return the exit code for that."""
    print("@error", " ".join(str(error).split("\n")), sep="\t", flush=True)  # noqa: T201
    return JobExit.FAILED
