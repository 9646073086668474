"""What YARN says of an application's end becomes a failure of its kind."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stateward.contract.stream_control import SILENT, Control, FailureKind
from stateward.control.launchers.driver_exit import Exit, failure_of_end
from stateward.control.launchers.yarn_driver import exit_of, tag_of

FAILED = (
    "Application application_1_0002 failed 1 times (global limit =2; local limit is =1) due to AM Container"
    " for appattempt_1_0002_000001 exited with  exitCode: {code}\nFailing this attempt.Diagnostics: {said}\n"
    "For more detailed output, check the application tracking page: http://rm:8088/cluster/app/application_1"
    "_0002 Then click on links to logs of each attempt.\n. Failing the application."
)
MEMORY = (
    "[2026-11-26 05:59:26.810]Container [pid=7,containerID=container_1_0002_01_000001] is running 4096B"
    " beyond the 'PHYSICAL' memory limit. Current usage: 1.5 GB of 1.5 GB physical memory used; 5.1 GB of 3.1"
    " GB virtual memory used. Killing container.\nDump of the process-tree for container_1_0002_01_000001 :\n"
    "\t|- PID PPID PGRPID SESSID CMD_NAME USER_MODE_TIME(MILLIS)\n"
)
KILLED = "[2026-11-26 05:59:26.810]Container killed on request. Exit code is 137\nKilled by external signal"
BY_A_PERSON = "Application application_1_0002 was killed by user eve at 10.0.0.9"
LOST = "Container released on a *lost* node"
FULL = "[2026-11-26 15:41:59.446]No space available in any of the local directories on host node1/10.0.0.12"


def failed(code: int, said: str) -> tuple[str, str]:
    return "FAILED", FAILED.format(code=code, said=said)


@pytest.mark.parametrize(
    ("end", "kind", "signal", "said"),
    [
        (failed(137, KILLED), "killed", "SIGKILL", "its JVM was killed by SIGKILL"),
        (("FINISHED", "User application exited with status 137"), "killed", "SIGKILL", "its Python"),
        (failed(-104, MEMORY), "out_of_memory", None, "beyond the 'PHYSICAL' memory limit"),
        (failed(-102, "Container preempted"), "evicted", None, "preempted"),
        (failed(-100, LOST), "evicted", None, "*lost*"),
        (failed(-1000, FULL), "not_started", None, "could not start its container: [2026"),
        (("KILLED", BY_A_PERSON), "evicted", None, "by user eve"),
        (("KILLED", ""), "evicted", None, "the application was killed"),
        (("FINISHED", "User application exited with status 1"), "gone", None, ""),
        (failed(13, "Exception from container-launch."), "gone", None, ""),
        (("FINISHED", None), "gone", None, ""),
    ],
)
def test_an_end_that_yarn_reports_has_a_kind(
    end: tuple[str, str | None], kind: FailureKind, signal: str | None, said: str
) -> None:
    found = exit_of({"state": end[0], "diagnostics": end[1]})
    control = Control("s", "running", "r1", datetime(2026, 1, 1, tzinfo=UTC))
    failure = failure_of_end(control, None, found, "")
    assert (failure.kind, failure.signal) == (kind, signal)
    assert failure.cause.startswith(SILENT) and said in failure.cause
    assert "process-tree" not in failure.cause and "\n" not in failure.cause


def test_an_error_in_the_log_is_the_cause_where_yarn_names_none() -> None:
    control = Control("s", "running", "r1", datetime(2026, 1, 1, tzinfo=UTC))
    failure = failure_of_end(control, None, Exit(code=1), "ImportError: no module")
    assert (failure.kind, failure.cause) == ("not_started", f"{SILENT}: ImportError: no module")


def test_a_tag_is_as_yarn_keeps_it() -> None:
    assert tag_of("20261126T055143-9199e1ee") == "stateward-20261126t055143-9199e1ee"
