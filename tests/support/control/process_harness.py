"""A stream that is acted on: real processes, started as drivers are, with a stand-in for the driver."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
from msgspec.structs import replace

from stateward.contract.process_identity import started_at
from stateward.contract.storage import write_json
from stateward.contract.stream_control import Control, Launch
from stateward.control.launchers import driver_process, launch
from stateward.control.launchers.driver_process import DriverCommand, Prepared
from stateward.control.reconcile.decide import Healthy
from stateward.control.reconcile.executor import Controller
from stateward.control.reconcile.observe import read_control
from stateward.control.reconcile.reconcile_loop import REACHED, settle
from stateward.project.layout import Layout
from stateward.project.settings import CHECKOUT, Settings
from stateward.project.spec import StreamSpec
from stateward.project.spec_health import Health, Restart
from tests.support.control.requests import wish
from tests.support.waiting import PATIENCE_S

STREAM = "user_sessions"


@dataclass
class StandInLauncher:
    """Starts tests/support/control/stand_in_driver.py in the way that drivers are started, without Spark."""

    spec: StreamSpec
    settings: Settings
    at_start: list[Control | None] = field(default_factory=list)
    deployed: str = "code1-yaml1"

    def prepare(self, run_id: str, now: datetime, release: str | None) -> Prepared:
        layout = Layout.of(self.settings)
        configuration = launch.resolved_configuration(self.spec, self.settings, run_id)
        write_json(layout.config_uri(self.spec.stream), configuration)
        return Prepared(
            driver_process.log_file(layout, self.spec.stream, run_id, now), release or self.deployed
        )

    def start(self, launched: Launch) -> Launch:
        layout = Layout.of(self.settings)
        self.at_start.append(read_control(layout, self.spec.stream))
        script = str(CHECKOUT / "tests" / "support" / "control" / "stand_in_driver.py")
        arguments = [sys.executable, script, layout.config_uri(self.spec.stream)]
        environment = launch.driver_environment(os.environ, self.settings, self.spec.stream, launched.run_id)
        pid = driver_process.start(DriverCommand(arguments, environment), Path(launched.log))
        return replace(launched, pid=pid, pid_started=started_at(pid))


def quick(spec: StreamSpec, **health: Any) -> StreamSpec:
    """The shipped spec, which restarts at once and gives up soon; on a busy machine no deadline passes."""
    long = timedelta(seconds=PATIENCE_S)
    patient = Health(max_status_age=long, start_deadline=long, stop_deadline=long)
    restart = Restart(backoff=timedelta(milliseconds=50), max_attempts=2, window=timedelta(minutes=5))
    return spec.model_copy(update={"health": patient.model_copy(update=health), "restart": restart})


def pause() -> None:
    threading.Event().wait(0.05)


def reach(controller: Controller, expected: type[Any]) -> Any:
    action = settle(controller, pause, REACHED)
    assert isinstance(action, expected), action
    return action


def control_of(controller: Controller) -> Control:
    control = read_control(controller.layout, controller.spec.stream)
    assert control is not None
    return control


def driver_of(controller: Controller) -> psutil.Process:
    launched = control_of(controller).launch
    assert launched is not None
    assert launched.pid is not None
    return psutil.Process(launched.pid)


def starts(controller: Controller) -> list[str]:
    file = controller.settings.home / "starts"
    return file.read_text().splitlines() if file.exists() else []


def run(controller: Controller) -> psutil.Process:
    controller.request(wish("run", "test"))
    reach(controller, Healthy)
    return driver_of(controller)
