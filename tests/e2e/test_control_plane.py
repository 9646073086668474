"""The control plane with real spark-submit, Kafka and Delta; only Airflow's services are missing."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from msgspec import structs

from stateward.airflow.spark_submit import build_command
from stateward.contract.lease import LeaseRecord, read_lease
from stateward.contract.process_identity import started_at
from stateward.contract.reading import as_json
from stateward.contract.storage import write_json
from stateward.contract.stream_status import Status
from stateward.control.launchers import processes
from stateward.control.launchers.launch import SparkLauncher
from stateward.control.reconcile.decide import Done, Healthy
from stateward.control.reconcile.executor import Controller, log_tail
from stateward.control.reconcile.observe import read_control, read_status
from stateward.control.reconcile.reconcile_loop import REACHED, settle
from stateward.project.settings import Settings
from stateward.project.spec import load_spec
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.driver import worker_daemon
from tests.support.control.requests import wish
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

STREAM = "user_sessions"
LOOK_EVERY_S = 0.5
# The driver ends itself after the first and twice the second.
IMPATIENT = "\nhealth: {stop_deadline: 3s, kill_grace: 1s}\n"


def tail(controller: Controller) -> str:
    return log_tail(controller.layout, read_control(controller.layout, STREAM))


@pytest.fixture
def controller(
    request: pytest.FixtureRequest, tmp_path: Path, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Controller]:
    connection = {"conn_type": "spark", "host": "local[2]"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    # The parameter is the end of the stream's YAML.
    streams = tmp_path / "streams"
    streams.mkdir()
    (streams / f"{STREAM}.yaml").write_text(
        (Settings().streams / f"{STREAM}.yaml").read_text() + request.param
    )
    settings = Settings(
        home=tmp_path / "home",
        streams=streams,
        kafka_bootstrap=broker.bootstrap,
        create_topics_at=broker.bootstrap,
    )
    spec = load_spec(STREAM, streams)
    yield Controller(spec, settings, SparkLauncher(spec, settings, build_command))
    assert processes.kill(processes.find_by_env(settings.home, STREAM), timeout_s=20) == []


def reach(controller: Controller, expected: type) -> None:
    looks = int(PATIENCE_S / LOOK_EVERY_S)

    def pause() -> None:
        nonlocal looks
        looks -= 1
        assert looks, f"not within {PATIENCE_S:g} s: {tail(controller)}"
        threading.Event().wait(LOOK_EVERY_S)

    action = settle(controller, pause, REACHED)
    assert isinstance(action, expected), f"{action}\n{tail(controller)}"


def status_of(controller: Controller) -> Status:
    status = read_status(controller.layout, STREAM)
    assert status is not None
    return status


def held(controller: Controller) -> LeaseRecord:
    lease = read_lease(controller.layout.lease_uri(STREAM))
    assert lease is not None
    return lease


@ci_full
@pytest.mark.parametrize("controller", [""], indirect=True, ids=["as shipped"])
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


def send(controller: Controller, event_id: str) -> None:
    event = {"event_id": event_id, "user_id": "ann", "event_type": "view"}
    text = json.dumps({**event, "event_time": datetime.now(UTC).isoformat()})
    producer = Producer({"bootstrap.servers": controller.settings.kafka_bootstrap})
    producer.produce(controller.spec.source.names[0], text.encode(), b"ann")
    assert producer.flush(PATIENCE_S) == 0


@ci_full
@pytest.mark.parametrize("controller", [IMPATIENT], indirect=True, ids=["impatient"])
def test_a_driver_on_another_host_that_hangs_ends_itself_and_is_replaced(controller: Controller) -> None:
    layout = controller.layout
    controller.request(wish("run", "test"))
    reach(controller, Healthy)
    send(controller, "1")
    wait_until(lambda: status_of(controller).delivered == 1, PATIENCE_S, "its batch is committed")

    # No worker of a task answers any more, so the next batch is planned and never ends.
    first = status_of(controller)
    for process in processes.find_by_env(controller.settings.home, STREAM):
        if worker_daemon.__name__ in process.cmdline():
            process.send_signal(signal.SIGSTOP)
    send(controller, "2")
    wait_until(lambda: status_of(controller).caught_up is False, PATIENCE_S, "a record waits")
    # A driver that is asked before its batch is planned has nothing to wait for.
    checkpoint = Checkpoint(first.checkpoint or "")
    wait_until(lambda: not checkpoint.is_clean(), PATIENCE_S, "the batch with it is planned")
    control = read_control(layout, STREAM)
    assert control is not None and control.launch is not None
    elsewhere = structs.replace(control.launch, host="another/boot/pid:[1]")
    write_json(layout.control_uri(STREAM), as_json(structs.replace(control, launch=elsewhere)))

    controller.request(wish("restart", "another run"))
    reach(controller, Healthy)
    second = read_control(layout, STREAM)
    assert second is not None and second.launch is not None
    assert second.launch.run_id != first.run_id
    assert "expected the driver to drain within 5 s" in Path(control.launch.log).read_text()
    assert started_at(first.pid or 0) is None
    wait_until(lambda: status_of(controller).caught_up is True, PATIENCE_S, "its batch is committed")
    controller.request(wish("stop", "test"))
    reach(controller, Done)
