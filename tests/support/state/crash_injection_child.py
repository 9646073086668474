"""A verb as its job does it, in a process that kills itself with its JVM at a step.

Arguments: a file with the pickled request, and the step: one that the verb reports; ``planned``, when Spark
has written the plan of its batch and no commit; ``made current``, when the new generation counts and no
result is written yet.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.state import job
from stateward.state.operation.request import Request
from tests.support.waiting import wait_until

PLANNED, MADE_CURRENT = "planned", "made current"


def die() -> None:
    # The test has given both a process group of their own.
    os.killpg(0, signal.SIGKILL)


def die_once_planned(request: Request) -> None:
    current = generations.current(request.config.checkpoint_uri)
    batch = Checkpoint(current.uri).last_committed() + 1
    planned = Path(f"{current.following().uri}/offsets/{batch}".removeprefix("file://"))

    def watch() -> None:
        wait_until(planned.exists, 300, "no plan", 0.001)
        die()

    threading.Thread(target=watch, daemon=True).start()


def main(file: str, step: str) -> None:
    request: Request = pickle.loads(Path(file).read_bytes())
    make_current: Callable[..., None] = generations.make_current

    def say(part: str, what: str) -> None:
        # In the middle of the copy.
        if part == step and (part != "copy" or what.startswith("9 of ")):
            die()

    def then_die(*arguments: Any) -> None:
        make_current(*arguments)
        die()

    patch = pytest.MonkeyPatch()
    patch.setattr(job, "report_step", say)
    if step == PLANNED:
        die_once_planned(request)
    if step == MADE_CURRENT:
        patch.setattr(generations, "make_current", then_die)
    job.perform(request)


if __name__ == "__main__":
    main(*sys.argv[1:])
