"""Progress and error reports of a batch job (`stateward.contract.process_output`)."""

from __future__ import annotations

import logging

from stateward.contract.process_output import Failure, JobExit, Step


def begin_log() -> None:
    """Configure logging: everything from our own code, and only warnings from py4j."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)


def report_step(part: str, what: str) -> None:
    """Report progress."""
    # One write per line, because several threads copy files and their lines must not mix.
    print(f"{Step(part, what).line()}\n", end="", flush=True)  # noqa: T201


def report_error(error: object) -> JobExit:
    """Report in one line why the job failed, and return its exit code."""
    print(Failure(str(error)).line(), flush=True)  # noqa: T201
    return JobExit.FAILED
