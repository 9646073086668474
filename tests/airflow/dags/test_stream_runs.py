"""DAG runs that start, supervise, restart and stop a driver: Airflow's own, the driver a stand-in."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
import yaml

from stateward.airflow.spark_submit import master_of
from stateward.contract.process_identity import started_at
from stateward.contract.storage import read_json
from stateward.control.launchers import processes
from stateward.control.reconcile.observe import read_control, read_supervisor
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import load_spec
from tests.airflow.conftest import STREAM, Platform, results
from tests.support.full import ci_full
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.airflow


def layout_of(platform: Platform) -> Layout:
    return Layout.of(Settings(home=platform.home))


def running(platform: Platform, starts: int) -> int:
    """Wait until the newest of `starts` drivers reports that it runs; return its process id."""
    layout = layout_of(platform)

    def pid() -> int | None:
        status = read_json(layout.status_uri(STREAM)) or {}
        lines = platform.starts()
        newest = lines and lines[-1] == f"{status.get('run_id')} {status.get('pid')}"
        ok = newest and len(lines) == starts and status["state"] == "running"
        return int(status["pid"]) if ok else None

    def found() -> str:
        return f"expected driver {starts} to run, starts: {platform.starts()}\n{platform.failed_output()}"

    return wait_until(pid, PATIENCE_S, found) or 0


def test_two_triggers_at_once_leave_one_driver_and_one_supervisor(platform: Platform) -> None:
    platform.store_dags()
    first, second = platform.trigger("run"), platform.trigger("run")
    pid = running(platform, starts=1)
    ended = wait_until(
        lambda: next((run for run in (first, second) if run.poll() is not None), None),
        PATIENCE_S,
        "neither run has left the supervision to the other",
    )
    states, output = results(ended)
    assert states == {"deploy": "success", "supervise": "success"}, output
    assert "supervises stream user_sessions" in output
    other = second if ended is first else first
    assert other.poll() is None
    assert started_at(pid) is not None

    # A crash: the trigger sees it, and the task starts the driver again.
    os.kill(pid, signal.SIGKILL)
    assert running(platform, starts=2) != pid

    # Another run stops the stream: the supervisor ends well, the stopping run has nothing to supervise.
    assert platform.run_here("stop") == {"deploy": "success", "supervise": "skipped"}
    states, output = results(other)
    assert states == {"deploy": "success", "supervise": "success"}, output
    assert read_supervisor(layout_of(platform), STREAM) is None
    assert processes.find_by_env(platform.home, STREAM) == []
    assert len(platform.starts()) == 2


@ci_full
def test_a_killed_supervisor_leaves_the_driver_and_the_next_run_restarts_it(
    platform: Platform,
) -> None:
    first = platform.trigger("run")
    pid = running(platform, starts=1)
    wait_until(lambda: read_supervisor(layout_of(platform), STREAM), PATIENCE_S, "no supervisor")
    first.kill()
    first.communicate()
    assert started_at(pid) is not None
    restart = platform.trigger("restart")
    assert running(platform, starts=2) != pid
    assert started_at(pid) is None
    # The dead supervisor's heartbeat is still fresh; it is taken over once it is stale.
    layout = layout_of(platform)
    dead = read_supervisor(layout, STREAM)
    assert dead is not None
    wait_until(
        lambda: (now := read_supervisor(layout, STREAM)) and now.dag_run != dead.dag_run,
        PATIENCE_S,
        "the restarting run does not take over",
    )
    assert platform.run_here("stop") == {"deploy": "success", "supervise": "skipped"}
    states, output = results(restart)
    assert states == {"deploy": "success", "supervise": "success"}, output


def test_a_driver_that_always_fails_fails_the_task_with_the_end_of_its_log(
    platform: Platform, capfd: pytest.CaptureFixture[str]
) -> None:
    (platform.home / "fail").touch()
    states = platform.run_here("run")
    output = capfd.readouterr().out
    assert states == {"deploy": "failed", "supervise": "upstream_failed"}, output
    assert "restarted 2 times" in output
    assert "ValueError: the reason is in the log" in output
    control = read_control(layout_of(platform), STREAM)
    assert control is not None
    assert control.launch is not None
    assert control.launch.log in output


def test_an_invalid_yaml_fails_the_task_with_the_problem(
    platform: Platform, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = Path(platform.environment["STATEWARD_STREAMS"])
    (folder / "broken.yaml").write_text("stream: broken\n")
    states = platform.run_here("run", dag_id="stream_broken")
    output = capfd.readouterr().out
    assert states["deploy"] == "failed", output
    assert "Add `source` at the top level of the file." in output


def test_a_missing_connection_is_named_with_its_remedy(
    platform: Platform, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    states = platform.run_here("run")
    output = capfd.readouterr().out
    assert states["deploy"] == "failed", output
    assert "expected the Airflow connection 'spark_default'" in output
    [remedy] = set(re.findall(r"AIRFLOW_CONN_SPARK_DEFAULT='(.+?)'", output))
    assert platform.starts() == []
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", remedy)
    assert master_of(load_spec("user_sessions")) == "local[*,4]"


@ci_full
def test_a_suspended_stream_stays_at_rest_until_it_is_resumed(platform: Platform) -> None:
    watched = platform.trigger("run")
    pid = running(platform, starts=1)
    # A reason is asked for, before anything happens.
    assert platform.run_here("suspend")["deploy"] == "failed"
    assert started_at(pid) is not None

    at_rest = {"deploy": "success", "supervise": "skipped"}
    assert platform.run_here("suspend", reason="payments are being migrated") == at_rest
    assert started_at(pid) is None
    control = read_control(layout_of(platform), STREAM)
    assert control is not None
    assert control.override is not None
    assert (control.override.author, control.override.reason) == ("dag_test", "payments are being migrated")

    # Neither another run nor a restart wakes it, and its supervisor goes on watching.
    for action in ("run", "restart"):
        states, output = results(platform.trigger(action))
        assert states == {"deploy": "success", "supervise": "success"}, output
        assert "suspended by dag_test" in output
    assert watched.poll() is None
    assert processes.find_by_env(platform.home, STREAM) == []
    assert len(platform.starts()) == 1

    states, output = results(platform.trigger("resume"))
    assert states == {"deploy": "success", "supervise": "success"}, output
    assert running(platform, starts=2) != pid
    assert platform.run_here("stop") == at_rest
    assert results(watched)[0] == {"deploy": "success", "supervise": "success"}


def test_what_the_yaml_now_declares_is_brought_about_by_the_supervisor(
    platform: Platform,
) -> None:
    watched = platform.trigger("run")
    pid = running(platform, starts=1)
    wait_until(lambda: read_supervisor(layout_of(platform), STREAM), PATIENCE_S, "no supervisor")
    edit(platform, desired="suspended")
    wait_until(lambda: started_at(pid) is None, PATIENCE_S, "the driver goes on")
    control = read_control(layout_of(platform), STREAM)
    assert control is not None
    assert (control.desired, control.declared, control.override) == ("suspended", "suspended", None)
    assert watched.poll() is None
    edit(platform, desired="running")
    assert running(platform, starts=2) != pid
    assert platform.run_here("stop") == {"deploy": "success", "supervise": "skipped"}
    assert results(watched)[0] == {"deploy": "success", "supervise": "success"}


@ci_full
def test_a_broken_yaml_lets_a_driver_crash_and_come_back_and_be_stopped(
    platform: Platform, capfd: pytest.CaptureFixture[str]
) -> None:
    watched = platform.trigger("run")
    pid = running(platform, starts=1)
    wait_until(lambda: read_supervisor(layout_of(platform), STREAM), PATIENCE_S, "no supervisor")
    edit(platform, trigger_interval="soon")
    os.kill(pid, signal.SIGKILL)
    again = running(platform, starts=2)
    assert again != pid
    # A restart would be with what is there now: it says so, and leaves the driver alone.
    assert platform.run_here("restart") == {"deploy": "failed", "supervise": "upstream_failed"}
    assert "trigger_interval" in capfd.readouterr().out
    assert started_at(again) is not None
    assert platform.run_here("stop") == {"deploy": "success", "supervise": "skipped"}
    assert results(watched)[0] == {"deploy": "success", "supervise": "success"}


def edit(platform: Platform, **changes: str) -> None:
    """Edit the stream's YAML."""
    file = Path(platform.environment["STATEWARD_STREAMS"], f"{STREAM}.yaml")
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | changes))
