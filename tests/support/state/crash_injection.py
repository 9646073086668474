"""Operations that crash: each in its own process, which is killed with its JVM at a step."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys

from stateward.state.operation.request import Request
from tests.support.spark.launches import CHECKOUT, JARS, Launch
from tests.support.state.crash_injection_child import MADE_CURRENT, PLANNED

__all__ = ["MADE_CURRENT", "PLANNED", "killed_at"]


def killed_at(step: str, launch: Launch, asked: Request) -> None:
    """Run an operation in its own process up to a step."""
    request = launch.folder / f"{step}.request"
    request.write_bytes(pickle.dumps(asked))
    log = launch.folder / f"{step}.log"
    with log.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.support.state.crash_injection_child", str(request), step],
            cwd=CHECKOUT,
            env={**os.environ, "STATEWARD_JARS": str(JARS), "PYTHONPATH": str(CHECKOUT)},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            assert child.wait(300) == -signal.SIGKILL, log.read_text()[-2000:]
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
