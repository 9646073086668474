"""Whatever people do to the Airflow task of a running stream, its driver goes on, and is found again."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from stateward.cli.streams.airflow_api import AirflowApi
from stateward.control.reconcile.observe import read_supervisor
from tests.support.control.installation import Installation
from tests.support.control.live_stream import LiveStream
from tests.support.full import only_full
from tests.support.pages.buttons import press
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.e2e, only_full]


@pytest.fixture(scope="module")
def stream(platform: Installation) -> Iterator[LiveStream]:
    stream = LiveStream("user_sessions", platform)
    stream.trigger("run")
    stream.wait_running()
    yield stream
    with stream.airflow() as api:
        api.unpause(stream.dag)


def supervisor(stream: LiveStream, since: datetime) -> str | None:
    """The DAG run that has looked at the stream after `since`, if one has."""
    found = read_supervisor(stream.layout, stream.name)
    if found is None or found.at < since:
        return None
    return found.dag_run.partition("/")[2]


def wait_for_supervisor(stream: LiveStream, since: datetime, known: str | None = None) -> str:
    """Wait until a run has watched the stream after `since` and its task waits in the triggerer.

    Args:
        stream: The stream.
        since: A sign of life of before then does not count: it may be that of a task that is no more.
        known: The run that it has to be; any run, if None.
    """

    def watching() -> str | None:
        run = supervisor(stream, since)
        if run is None or (known is not None and run != known):
            return None
        with stream.airflow() as api:
            # A deleted DAG has taken its runs with it.
            if run not in api.runs(stream.dag):
                return None
            return run if api.task_states(stream.dag, run).get("supervise") == "deferred" else None

    def found() -> str:
        with stream.airflow() as api:
            runs = api.runs(stream.dag)
        return f"{known or 'a run'} supervises; found {supervisor(stream, since)} and the runs {runs}"

    return wait_until(watching, PATIENCE_S, found, poll_s=1) or ""


def clear(api: AirflowApi, stream: LiveStream, run: str) -> None:
    body = {"dry_run": False, "dag_run_id": run, "task_ids": ["supervise"], "only_failed": False}
    press(api, "POST", f"/dags/{stream.dag}/clearTaskInstances", body)


def fail(api: AirflowApi, stream: LiveStream, run: str) -> None:
    path = f"/dags/{stream.dag}/dagRuns/{run}/taskInstances/supervise"
    press(api, "PATCH", path, {"new_state": "failed"})


def fail_run(api: AirflowApi, stream: LiveStream, run: str) -> None:
    press(api, "PATCH", f"/dags/{stream.dag}/dagRuns/{run}", {"state": "failed"})


def pause(api: AirflowApi, stream: LiveStream, run: str) -> None:
    press(api, "PATCH", f"/dags/{stream.dag}", {"is_paused": True})


def kill_triggerer(api: AirflowApi, stream: LiveStream, run: str) -> None:
    pid = stream.installation.pids()["triggerer"]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    stream.installation.wait_ready()


def delete(api: AirflowApi, stream: LiveStream, run: str) -> None:
    press(api, "DELETE", f"/dags/{stream.dag}")


Drill = Callable[[AirflowApi, LiveStream, str], None]
# What is done, and whether the same run goes on by itself.
DRILLS: list[tuple[Drill, bool]] = [
    (clear, True),
    (kill_triggerer, True),
    (pause, True),
    (fail, False),
    (fail_run, False),
    (delete, False),
]


@pytest.mark.parametrize(("drill", "goes_on"), DRILLS, ids=[drill.__name__ for drill, _ in DRILLS])
def test_the_driver_goes_on_and_is_found_again(stream: LiveStream, drill: Drill, goes_on: bool) -> None:
    run = wait_for_supervisor(stream, datetime.now(UTC))
    [driver] = stream.drivers()
    status = stream.status()
    with stream.airflow() as api:
        drill(api, stream, run)
    done = datetime.now(UTC)
    if not goes_on:
        stream.trigger("run")
    wait_for_supervisor(stream, done, run if goes_on else None)

    assert stream.drivers() == [driver], stream.describe()
    now = stream.status()
    assert (now["pid"], now["epoch"], now["state"]) == (status["pid"], status["epoch"], "running")
    # And whoever watches now does what a supervisor is for.
    if drill is delete:
        epoch = now["epoch"]
        driver.kill()
        wait_until(
            lambda: stream.is_running() and stream.status()["epoch"] > epoch,
            PATIENCE_S,
            lambda: f"a new driver runs; found {stream.describe()}",
        )
