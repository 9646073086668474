"""DAG runs that tell of a driver's crashes: Airflow's own, the driver a stand-in, the receiver a file."""

from __future__ import annotations

import os
import signal

import pytest

from stateward.alerts.incident_document import read_incidents
from stateward.alerts.outbox import is_open
from stateward.contract.storage import read_json
from stateward.control.reconcile.observe import read_supervisor
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from tests.airflow.conftest import STREAM, Platform, results, sent_messages
from tests.support.full import ci_full, only_full
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.airflow


@pytest.fixture
def listening(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """A platform that writes incidents to the file `messages`, and five good seconds end one."""
    file = platform.home / "notifiers.yaml"
    file.write_text(
        "- class: stateward.airflow.notifiers.json_lines.JsonLinesNotifier\n"
        f"  kwargs: {{path: {platform.home}/messages}}\n"
        "- class: stateward.airflow.notifiers.task_log.TaskLogNotifier\n"
    )
    for name, value in (("NOTIFIERS", str(file)), ("RESOLVE_AFTER_S", "5")):
        platform.environment[f"STATEWARD_{name}"] = value
        monkeypatch.setenv(f"STATEWARD_{name}", value)
    return platform


def events(platform: Platform) -> list[str]:
    return [message["event"] for message in sent_messages(platform.home)]


def driver(platform: Platform, starts: int) -> int:
    """Wait until the newest of `starts` drivers runs, and is supervised; return its process id."""
    layout = Layout.of(Settings(home=platform.home))

    def pid() -> int | None:
        status, lines = read_json(layout.status_uri(STREAM)) or {}, platform.starts()
        newest = lines and lines[-1] == f"{status.get('run_id')} {status.get('pid')}"
        ok = newest and len(lines) == starts and status["state"] == "running"
        return int(status["pid"]) if ok and read_supervisor(layout, STREAM) else None

    def found() -> str:
        return f"expected driver {starts} to run, starts: {platform.starts()}\n{platform.failed_output()}"

    return wait_until(pid, PATIENCE_S, found) or 0


def wait_for_events(platform: Platform, *expected: str) -> None:
    """Wait until exactly these turns have been sent."""
    wait_until(
        lambda: events(platform) == list(expected),
        240,
        lambda: f"expected {expected}, sent {events(platform)}\n{platform.failed_output()}",
    )


def keep_incidents_open(platform: Platform) -> None:
    """Let no driver run long enough to resolve an incident."""
    platform.environment["STATEWARD_RESOLVE_AFTER_S"] = "3600"


def fail_from_now_on(platform: Platform) -> None:
    """Kill the second driver, and let every later one fail.

    On a busy machine one task sees all of them fail, so the incident has to be stored before.
    """
    pid = driver(platform, starts=2)
    (platform.home / "fail").touch()
    os.kill(pid, signal.SIGKILL)


@ci_full
def test_several_crashes_are_one_incident_with_one_resolution(listening: Platform) -> None:
    run = listening.trigger("run")
    os.kill(driver(listening, starts=1), signal.SIGKILL)
    os.kill(driver(listening, starts=2), signal.SIGKILL)
    driver(listening, starts=3)
    wait_for_events(listening, "opened", "resolved")
    opened, resolved = sent_messages(listening.home)
    assert opened["id"] == resolved["id"]
    assert "process gone" in opened["cause"]
    assert resolved["restarts"] == 2

    assert listening.run_here("stop") == {"deploy": "success", "supervise": "skipped"}
    states, output = results(run)
    assert states == {"deploy": "success", "supervise": "success"}, output
    assert f"Incident {opened['id']}" in output
    assert events(listening) == ["opened", "resolved"]


@ci_full
def test_a_supervisor_that_is_killed_in_an_incident_leaves_no_duplicate(
    listening: Platform,
) -> None:
    first = listening.trigger("run")
    os.kill(driver(listening, starts=1), signal.SIGKILL)
    pid = driver(listening, starts=2)
    wait_for_events(listening, "opened")
    # A message is sent again, with its id, by whoever does not find it noted that it was sent.
    layout = Layout.of(Settings(home=listening.home))
    wait_until(
        lambda: not is_open(read_incidents(layout, STREAM).outbox), PATIENCE_S, "it is noted that it was sent"
    )
    first.kill()
    first.communicate()
    os.kill(pid, signal.SIGKILL)
    second = listening.trigger("run")
    wait_for_events(listening, "opened", "resolved")
    opened, resolved = sent_messages(listening.home)
    assert opened["id"] == resolved["id"]
    assert resolved["restarts"] == 2
    assert opened["links"]["dag_run"] != resolved["links"]["dag_run"]
    assert listening.run_here("stop") == {"deploy": "success", "supervise": "skipped"}
    assert results(second)[0] == {"deploy": "success", "supervise": "success"}
    assert events(listening) == ["opened", "resolved"]


@ci_full
def test_giving_up_is_told_once_more_and_a_stop_ends_the_incident(listening: Platform) -> None:
    keep_incidents_open(listening)
    run = listening.trigger("run")
    os.kill(driver(listening, starts=1), signal.SIGKILL)
    wait_for_events(listening, "opened")
    fail_from_now_on(listening)
    states, output = results(run)
    assert states == {"deploy": "success", "supervise": "failed"}, output
    assert events(listening) == ["opened", "escalated"]
    opened, escalated = sent_messages(listening.home)
    assert opened["id"] == escalated["id"]
    assert "restarted 2 times" in escalated["cause"]
    # No supervisor is left: the run that stops the stream reports that the incident is over.
    assert listening.run_here("stop") == {"deploy": "success", "supervise": "skipped"}
    assert events(listening) == ["opened", "escalated", "resolved"]
    assert read_supervisor(Layout.of(Settings(home=listening.home)), STREAM) is None


@only_full
def test_a_run_that_gave_up_ends_once_that_is_told(listening: Platform) -> None:
    """And does not fire again and again while the receiver is away."""
    file = listening.home / "notifiers.yaml"
    right = file.read_text()
    file.write_text("- class: tests.airflow.alerts.test_notifications.Refusing\n  name: JsonLinesNotifier\n")
    keep_incidents_open(listening)
    run = listening.trigger("run")
    os.kill(driver(listening, starts=1), signal.SIGKILL)
    layout = Layout.of(Settings(home=listening.home))
    wait_until(
        lambda: read_incidents(layout, STREAM).memory.open, PATIENCE_S, "the first crash opens an incident"
    )
    fail_from_now_on(listening)

    def given_up() -> bool:
        incidents = read_incidents(layout, STREAM)
        refused = any(delivery.problem for one in incidents.outbox for delivery in one.deliveries)
        return refused and any(one.gave_up for one in incidents.memory.open)

    wait_until(given_up, PATIENCE_S, listening.failed_output)
    file.write_text(right)
    states, output = results(run)
    assert states == {"deploy": "success", "supervise": "failed"}, output
    assert events(listening) == ["opened", "escalated"]
    assert "notifier JsonLinesNotifier did not accept" in output
    assert output.count("The trigger fired") < 8, output
