"""How a batch job says what it is doing, and why it could not be done (`stateward.contract.job_steps`)."""

from __future__ import annotations

import logging

from stateward.contract.exit_codes import JobExit
from stateward.contract.job_steps import Failure, Step


def begin_log() -> None:
    """Let the job's log say what our own code logs, and of the gateway to Java only what is odd."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)


def report_step(part: str, what: str) -> None:
    """Report progress."""
    # In one piece: files are copied by several threads, and their lines must not mix.
    print(f"{Step(part, what).line()}\n", end="", flush=True)  # noqa: T201


def report_error(error: object) -> JobExit:
    """Say in one line why the work could not be done, and return the exit code for that."""
    print(Failure(str(error)).line(), flush=True)  # noqa: T201
    return JobExit.FAILED
