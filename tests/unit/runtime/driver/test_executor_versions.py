"""What executors have is compared with what the driver has."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stateward.control.releases.code_zip import zip_code
from stateward.project.settings import CHECKOUT
from stateward.runtime.driver.executor_versions import (
    ExecutorsDifferError,
    Installed,
    differences,
    installed,
    require_same,
)

STREAM = "user_sessions"
OWN = Installed("driver", "4.2.1", "4.2.1", "3.11", "aaa", "bbb")


def executor(name: str = "w1/7", **other: str) -> Installed:
    return OWN._replace(executor=name, **other)


def test_the_same_versions_are_no_difference() -> None:
    assert differences(OWN, [executor(), executor("w2/8")]) == []


def test_each_difference_names_the_executor_and_both_versions() -> None:
    found = differences(
        OWN,
        [
            executor(spark="4.2.0", python="3.12"),
            executor("w2/8", library="c"),
            executor("w2/8", library="c"),
        ],
    )
    assert found == [
        "executor w1/7 has Spark 4.2.0 instead of 4.2.1, Python 3.12 instead of 3.11",
        "executor w2/8 has another content of the library stateward",
    ]
    assert "the stream's package" in differences(OWN, [executor(stream="c")])[0]


def installed_with(code: Path, folder: Path) -> tuple[Installed, str]:
    """What a process has that imports its code from there, and the file that it imported."""
    program = (
        "from stateward.runtime.driver import executor_versions;"
        f"print(*executor_versions.installed('x', '4', {STREAM!r})); print(executor_versions.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(code)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    values, origin = done.stdout.splitlines()
    return Installed(*values.split()), origin


def test_code_from_a_zip_is_that_of_its_folder(tmp_path: Path) -> None:
    made = zip_code([CHECKOUT / "spark_jobs", CHECKOUT / "stateward"], tmp_path)
    found, origin = installed_with(made, tmp_path)
    assert origin.startswith(str(made))
    assert found == installed("x", "4", STREAM)


def test_an_edit_of_the_library_or_of_the_stream_is_seen(tmp_path: Path) -> None:
    for package in ("spark_jobs", "stateward"):
        subprocess.run(["cp", "-r", str(CHECKOUT / package), str(tmp_path)], check=True)
    edited = tmp_path / "stateward" / "runtime" / "keyed" / "bucket.py"
    edited.write_text(edited.read_text() + "\n# edited\n")
    (found, _), own = installed_with(tmp_path, tmp_path), installed("x", "4", STREAM)
    assert found.library != own.library
    assert found._replace(library=own.library) == own


class StandInSession:
    """A STAND-IN for a session on a cluster, whose job fails or waits until it is cancelled."""

    version = "4.2.1"

    def __init__(self, master: str, *, fails: str = "", executors: int = 0) -> None:
        self.cancelled = threading.Event()
        tracker = SimpleNamespace(getExecutorInfos=lambda: [None] * (executors + 1))
        context = SimpleNamespace(
            statusTracker=lambda: tracker, cancelJobGroupAndFutureJobs=lambda group: self.cancelled.set()
        )
        self.sparkContext = SimpleNamespace(
            master=master,
            setJobGroup=lambda *_, **__: None,
            defaultParallelism=2,
            _jsc=SimpleNamespace(sc=lambda: context),
        )
        self._fails = fails

    def range(self, *_: int) -> Any:
        if not self._fails:
            self.cancelled.wait()
        raise RuntimeError(self._fails or "cancelled")


def compare(session: Any, polls: int = 10**9) -> None:
    left = iter(range(polls))
    require_same(session, STREAM, lambda: next(left, None) is None)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*,4]"])
def test_a_local_driver_runs_no_job(master: str) -> None:
    compare(StandInSession(master, fails="no job was expected"))


def test_a_driver_that_is_asked_to_leave_does_not_wait_for_executors() -> None:
    session = StandInSession("spark://m:7077")
    compare(session, polls=2)
    assert session.cancelled.is_set()


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (
            "Error from python worker:\n  /opt/python: No module named stateward.runtime\nPYTHONPATH was",
            "No module named stateward.runtime",
        ),
        (
            'java.io.IOException: Cannot run program "/opt/python": error=2, No such file or directory',
            'Cannot run program "/opt/python": error=2, No such file or directory',
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has 3.12, driver has 3.11",
            "[PYTHON_VERSION_MISMATCH] Python in worker has 3.12, driver has 3.11",
        ),
        (
            "ModuleNotFoundError: No module named 'msgspec'\n",
            "ModuleNotFoundError: No module named 'msgspec'",
        ),
    ],
)
def test_an_executor_that_cannot_run_the_code_is_an_error_in_words(error: str, shown: str) -> None:
    with pytest.raises(ExecutorsDifferError) as raised:
        compare(StandInSession("yarn", fails=error, executors=1))
    assert str(raised.value).startswith(
        f"stream {STREAM}: expected the executors of yarn to have what the driver has, found: an executor"
        f" cannot run its code: {shown}. Give the executors this Python environment"
    )


def test_another_failure_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="executor lost"):
        compare(StandInSession("yarn", fails="executor lost", executors=1))
