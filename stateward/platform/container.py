"""The main process of the container that has drivers: it runs Airflow's worker and drains them at its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from types import FrameType

from stateward.platform.parts.registry import WORKER, launch_command
from stateward.platform.shutdown import drain_drivers, end_airflow_leftovers
from stateward.project.settings import Settings


def main() -> int:
    """Run the worker until it ends or the container is stopped, and return its exit code."""
    return run(launch_command(WORKER), WORKER.stop_wait_s)


def run(command: list[str], stop_wait_s: float) -> int:
    """Run a command; SIGTERM ends it, and then every driver of this installation is drained.

    With the last process of a container Docker kills all others, so this one outlives the drivers.

    Args:
        command: The part. It gets a process group of its own, which is signalled as a whole.
        stop_wait_s: Seconds between SIGTERM and SIGKILL of that group.

    Returns:
        The exit code of the command; 128 and the signal's number if one ended it.
    """
    process = subprocess.Popen(command, start_new_session=True)

    def signal_group(number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)

    def stop(_number: int, _frame: FrameType | None) -> None:
        signal_group(signal.SIGTERM)
        signal.setitimer(signal.ITIMER_REAL, stop_wait_s)

    signal.signal(signal.SIGALRM, lambda *_: signal_group(signal.SIGKILL))
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    code = process.wait()
    signal.setitimer(signal.ITIMER_REAL, 0)
    settings = Settings()
    end_airflow_leftovers(settings)
    drain_drivers(settings, lambda part, what: print(f"{part}: {what}", flush=True))  # noqa: T201 - its log
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
