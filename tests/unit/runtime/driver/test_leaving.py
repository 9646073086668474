"""A driver leaves when it is asked to, or is ended by itself."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from stateward.contract.storage import read_json
from stateward.runtime.driver import leaving
from stateward.runtime.driver.leaving import Leaving
from tests.support.spark import stand_in_jvm
from tests.support.waiting import PATIENCE_S, wait_until

PYTHON = """
import os, sys
from datetime import UTC, datetime
from functools import partial
from threading import Event
from stateward.contract.process_identity import driver_process
from stateward.runtime.driver.jvm_watchdog import ParentJvm
from stateward.runtime.driver.leaving import Leaving, end_overdue
from stateward.runtime.telemetry.status import StatusFile
status = StatusFile(
    sys.argv[1], stream="s", run_id="r1", process=driver_process(), python_pid=os.getpid(),
    clock=lambda: datetime.now(UTC),
)
jvm = ParentJvm()
leaving = Leaving(lambda: "asked to stop by ann", 0.01, partial(end_overdue, "s", status, jvm, 0.01))
leaving.start()
Event().wait()
"""


class Overdue:
    """Notes with which reason it was called."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.called = threading.Event()

    def __call__(self, reason: str) -> None:
        self.reasons.append(reason)
        self.called.set()


def test_a_driver_that_is_asked_and_does_not_get_there_is_overdue() -> None:
    overdue = Overdue()
    asked = Leaving(lambda: "asked to stop", 0.01, overdue)
    asked.start()
    assert overdue.called.wait(PATIENCE_S)
    assert asked.is_requested and overdue.reasons == ["asked to stop"]


def test_the_first_reason_stays_and_the_deadline_begins_with_it() -> None:
    overdue = Overdue()
    signalled = Leaving(lambda: None, 0.01, overdue)
    signalled.request("SIGTERM")
    signalled.request("asked to stop")
    signalled.start()
    assert overdue.called.wait(PATIENCE_S)
    assert overdue.reasons == ["SIGTERM"]


@pytest.mark.parametrize("deadline_s", [0, 3600])
def test_a_driver_that_has_left_or_has_no_deadline_is_never_overdue(
    monkeypatch: pytest.MonkeyPatch, deadline_s: float
) -> None:
    monkeypatch.setattr(leaving, "_POLL_S", 0.01)
    overdue = Overdue()
    left = Leaving(lambda: None, deadline_s, overdue)
    left.done()
    left.request("asked to stop")
    left._watch()
    never_asked = Leaving(lambda: None, deadline_s, overdue)
    never_asked.done()
    never_asked._watch()
    assert overdue.reasons == []


def test_an_overdue_driver_says_so_and_ends_with_its_jvm(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/status.json"
    jvm = stand_in_jvm.start("-c", PYTHON, uri)
    try:
        assert jvm.wait(PATIENCE_S) == -signal.SIGKILL
        status = read_json(uri)
        assert status is not None and status["state"] == "failed"
        assert "expected the driver to drain" in status["message"]
        assert "asked to stop by ann" in status["message"]
        python = int(status["python_pid"])
        wait_until(lambda: not Path(f"/proc/{python}").exists(), PATIENCE_S, "its Python ends too")
    finally:
        jvm.kill()


def test_a_driver_leaves_with_its_code_also_when_the_end_of_the_interpreter_aborts() -> None:
    program = "import atexit, os; atexit.register(os.abort); print('last words'); "
    aborted = subprocess.run(
        [sys.executable, "-c", f"{program} raise SystemExit(3)"], check=False, timeout=60
    )
    left = subprocess.run(
        [sys.executable, "-c", f"{program} from stateward.runtime.driver.leaving import leave; leave(3)"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (aborted.returncode, left.returncode) == (-signal.SIGABRT, 3)
    assert left.stdout == "last words\n"
