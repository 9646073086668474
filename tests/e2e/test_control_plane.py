"""The control plane with real spark-submit, Kafka and Delta; only Airflow's services are missing."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from stateward.airflow.spark_submit import build_command
from stateward.contract.lease import LeaseRecord, read_lease
from stateward.contract.process_identity import started_at
from stateward.contract.stream_status import Status
from stateward.control.launchers import processes
from stateward.control.launchers.launch import SparkLauncher
from stateward.control.reconcile.decide import Done, Healthy
from stateward.control.reconcile.executor import Controller, log_tail
from stateward.control.reconcile.observe import read_control, read_status
from stateward.control.reconcile.reconcile_loop import REACHED, settle
from stateward.project.settings import Settings
from stateward.project.spec import load_spec
from tests.support.control.requests import wish
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

STREAM = "user_sessions"
LOOK_EVERY_S = 0.5


@pytest.fixture
def controller(
    tmp_path: Path, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Controller]:
    connection = {"conn_type": "spark", "host": "local[2]"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    settings = Settings(
        home=tmp_path / "home", kafka_bootstrap=broker.bootstrap, create_topics_at=broker.bootstrap
    )
    spec = load_spec(STREAM)
    yield Controller(spec, settings, SparkLauncher(spec, settings, build_command))
    assert processes.kill(processes.find_by_env(settings.home, STREAM), timeout_s=20) == []


def reach(controller: Controller, expected: type) -> None:
    looks = int(PATIENCE_S / LOOK_EVERY_S)

    def pause() -> None:
        nonlocal looks
        looks -= 1
        assert looks, f"not within {PATIENCE_S:g} s: {log_tail(read_control(controller.layout, STREAM))}"
        threading.Event().wait(LOOK_EVERY_S)

    action = settle(controller, pause, REACHED)
    assert isinstance(action, expected), f"{action}\n{log_tail(read_control(controller.layout, STREAM))}"


def status_of(controller: Controller) -> Status:
    status = read_status(controller.layout, STREAM)
    assert status is not None
    return status


def held(controller: Controller) -> LeaseRecord:
    lease = read_lease(controller.layout.lease_uri(STREAM))
    assert lease is not None
    return lease


@ci_full
def test_a_driver_is_launched_killed_launched_again_and_drained(controller: Controller) -> None:
    controller.request(wish("run", "test"))
    reach(controller, Healthy)
    first, epoch = status_of(controller), held(controller).epoch
    control = read_control(controller.layout, STREAM)
    assert control is not None
    assert control.launch is not None
    # Both rooms mean the same process of the same host.
    assert (first.pid, first.host) == (control.launch.pid, control.launch.host)
    assert first.run_id == control.run_id == held(controller).run_id

    assert first.pid is not None
    psutil.Process(first.pid).kill()
    wait_until(lambda: started_at(first.pid or 0) is None, PATIENCE_S, "SIGKILL ends the driver")
    reach(controller, Healthy)
    again = read_control(controller.layout, STREAM)
    assert again is not None
    assert f"its JVM (process {first.pid}) was killed by SIGKILL" in again.reason
    assert again.last_failure is not None
    assert (again.last_failure.kind, again.last_failure.signal) == ("killed", "SIGKILL")
    second = status_of(controller)
    assert second.run_id != first.run_id
    assert held(controller).epoch == epoch + 1

    controller.request(wish("stop", "test"))
    reach(controller, Done)
    assert status_of(controller).state == "stopped"
    assert held(controller).released
    wait_until(
        lambda: processes.find_by_env(controller.settings.home, STREAM) == [],
        PATIENCE_S,
        lambda: f"left behind: {processes.find_by_env(controller.settings.home, STREAM)}",
    )
