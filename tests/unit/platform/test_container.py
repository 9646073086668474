"""The main process of a container: what it does when the container is stopped, or its part ends by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from stateward.contract.names import ENV_DRIVER_STREAM, ENV_HOME, ENV_MANAGED, ENV_PART
from tests.support.waiting import PATIENCE_S, wait_until

MAIN = """
import sys
from stateward.platform.container import run
sys.exit(run(sys.argv[2:], float(sys.argv[1])))
"""
NOTES_ITS_END = """
import pathlib, signal, sys
def end(*_):
    with pathlib.Path(sys.argv[1]).open("a") as file:
        file.write(sys.argv[2] + "\\n")
    sys.exit(7)
signal.signal(signal.SIGTERM, end)
"""
DRIVER = NOTES_ITS_END + "pathlib.Path(sys.argv[1]).touch(); signal.pause()"
STARTS_A_DRIVER = f"""
import os, subprocess, sys
marks = {{**os.environ, "{ENV_DRIVER_STREAM}": "s"}}
command = [sys.executable, "-c", sys.argv[3], sys.argv[1], "driver"]
subprocess.Popen(command, env=marks, start_new_session=True)
"""
SCHEDULER = STARTS_A_DRIVER + NOTES_ITS_END + "signal.pause()"
DEAF_SCHEDULER = (
    STARTS_A_DRIVER + "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
)

Started = tuple[subprocess.Popen[bytes], Path]


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """Start the main process with a scheduler of its own, and wait until that one's driver is there."""
    main: list[subprocess.Popen[bytes]] = []

    def start(scheduler: str = SCHEDULER, stop_wait_s: float = 60) -> Started:
        ends = tmp_path / "ends"
        marks = {ENV_HOME: str(tmp_path), ENV_MANAGED: "1", ENV_PART: "scheduler"}
        part = [sys.executable, "-c", scheduler, str(ends), "scheduler", DRIVER]
        command = [sys.executable, "-c", MAIN, str(stop_wait_s), *part]
        main.append(subprocess.Popen(command, env={**os.environ, **marks}))
        wait_until(ends.exists, PATIENCE_S, "the driver is there")
        return main[-1], ends

    yield start
    for process in main:
        if process.poll() is None:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()
        process.wait()


def test_a_stop_ends_the_part_and_then_drains_its_drivers(container: Callable[..., Started]) -> None:
    main, ends = container()
    main.send_signal(signal.SIGTERM)
    assert main.wait(timeout=PATIENCE_S) == 7
    # A scheduler that is still there would start a driver that drains again.
    assert ends.read_text() == "scheduler\ndriver\n"


def test_a_part_that_does_not_end_is_killed_and_its_drivers_are_drained(
    container: Callable[..., Started],
) -> None:
    main, ends = container(DEAF_SCHEDULER, stop_wait_s=0.2)
    main.send_signal(signal.SIGTERM)
    assert main.wait(timeout=PATIENCE_S) == 128 + signal.SIGKILL
    assert ends.read_text() == "driver\n"


def test_drivers_are_drained_when_the_part_ends_by_itself(container: Callable[..., Started]) -> None:
    main, ends = container()
    scheduler = psutil.Process(main.pid).children()[0]
    scheduler.kill()
    assert main.wait(timeout=PATIENCE_S) == 128 + signal.SIGKILL
    assert ends.read_text() == "driver\n"
