"""Acting on a stream: real processes, started as drivers are, with a stand-in for the driver."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec.structs import replace

from stateward.contract.process_identity import started_at
from stateward.contract.stream_control import Failure
from stateward.control.launchers import driver_process, launch, processes
from stateward.control.launchers.driver_process import DriverCommand
from stateward.control.reconcile.decide import Action, Done, GiveUp, Healthy, Kill
from stateward.control.reconcile.executor import Controller, locked, log_tail
from stateward.control.reconcile.observe import read_status
from stateward.control.reconcile.reconcile_loop import NOTHING_DUE, settle
from stateward.project.settings import Settings
from stateward.project.spec import load_spec
from tests.support.control.process_harness import (
    STREAM,
    StandInLauncher,
    control_of,
    driver_of,
    pause,
    quick,
    reach,
    run,
    starts,
)
from tests.support.control.requests import wish
from tests.support.waiting import PATIENCE_S, wait_until


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


@pytest.fixture
def make(settings: Settings) -> Iterator[Callable[..., Controller]]:
    settings.home.mkdir()

    def build(**health: Any) -> Controller:
        spec = quick(load_spec(STREAM), **health)
        return Controller(spec, settings, StandInLauncher(spec, settings))

    yield build
    processes.kill(processes.find_by_env(settings.home, STREAM), timeout_s=10)


def test_a_driver_is_nobodys_child_and_leads_its_own_session(make: Callable[..., Controller]) -> None:
    driver = run(make())
    assert driver.pid not in {child.pid for child in psutil.Process().children(recursive=True)}
    assert os.getsid(driver.pid) == os.getpgid(driver.pid) == driver.pid
    assert os.readlink(f"/proc/{driver.pid}/fd/0") == "/dev/null"  # noqa: PTH115
    shared = {os.readlink(f"/proc/{driver.pid}/fd/{number}") for number in (1, 2)}  # noqa: PTH115
    assert shared == {control_log(make())}


def control_log(controller: Controller) -> str:
    launched = control_of(controller).launch
    assert launched is not None
    return launched.log


def test_what_should_be_is_written_before_the_driver_starts(make: Callable[..., Controller]) -> None:
    controller = make()
    run(controller)
    assert isinstance(controller.launcher, StandInLauncher)
    (before,) = controller.launcher.at_start
    assert before is not None
    assert before.launch is not None
    assert (before.desired, before.launch.run_id, before.launch.pid) == ("running", before.run_id, None)


def test_running_again_leaves_the_driver_alone(make: Callable[..., Controller]) -> None:
    controller = make()
    driver = run(controller)
    assert run(controller) == driver
    assert len(starts(controller)) == 1


def test_two_at_once_start_one_driver(make: Callable[..., Controller]) -> None:
    controllers = [make() for _ in range(4)]
    with ThreadPoolExecutor(len(controllers)) as pool:
        drivers = set(pool.map(run, controllers))
    assert len(drivers) == 1
    assert len(starts(controllers[0])) == 1


def test_a_restart_drains_the_old_driver_before_the_new_one_starts(make: Callable[..., Controller]) -> None:
    controller = make()
    old = run(controller)
    controller.request(wish("restart", "someone else"))
    reach(controller, Healthy)
    assert driver_of(controller) != old
    assert not old.is_running() or old.status() == psutil.STATUS_ZOMBIE
    # The stand-in takes an exclusive lock: had both been there, the second would have been refused.
    assert len(starts(controller)) == 2
    assert control_of(controller).restarts == ()


def test_a_restart_asked_for_twice_by_one_dag_run_is_one_restart(make: Callable[..., Controller]) -> None:
    controller = make()
    run(controller)
    for _ in range(2):
        controller.request(wish("restart", "dag run 1"))
        reach(controller, Healthy)
    assert len(starts(controller)) == 2


def test_stopping_drains_and_stays_stopped(make: Callable[..., Controller]) -> None:
    controller = make()
    driver = run(controller)
    controller.request(wish("stop", "someone"))
    assert "someone" in reach(controller, Done).reason
    assert started_at(driver.pid) is None
    status = read_status(controller.layout, STREAM)
    assert status is not None
    assert status.state == "stopped"
    reach(controller, Done)
    assert len(starts(controller)) == 1


def test_a_driver_that_does_not_drain_is_killed(make: Callable[..., Controller]) -> None:
    controller = make(stop_deadline=timedelta(milliseconds=300), kill_grace=timedelta(milliseconds=500))
    driver = run(controller)
    (controller.settings.home / "deaf").touch()
    controller.request(wish("stop", "test"))
    seen: list[Action] = []

    def is_done() -> bool:
        seen.append(controller.reconcile())
        return isinstance(seen[-1], Done)

    wait_until(is_done, PATIENCE_S, lambda: f"the driver was not ended: {seen[-1]}")
    kills = [action.how for action in seen if isinstance(action, Kill)]
    assert (kills[0], kills[-1]) == ("terminate", "kill")
    assert started_at(driver.pid) is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_driver_that_ends_is_started_again(make: Callable[..., Controller], number: int) -> None:
    controller = make()
    driver = run(controller)
    driver.send_signal(number)
    wait_until(lambda: started_at(driver.pid) is None, PATIENCE_S, "the driver does not end")
    reach(controller, Healthy)
    assert driver_of(controller) != driver
    assert len(starts(controller)) == 2
    if number == signal.SIGKILL:
        control = control_of(controller)
        assert f"its JVM (process {driver.pid}) was killed by SIGKILL" in control.reason
        assert control.last_failure is not None
        assert (control.last_failure.kind, control.last_failure.signal) == ("killed", "SIGKILL")
        assert control.reason == f"crash: {control.last_failure.cause}", "as the last release reads it"


def test_a_driver_that_hangs_is_killed_and_started_again(make: Callable[..., Controller]) -> None:
    controller = make(max_status_age=timedelta(seconds=2))
    driver = run(controller)
    driver.suspend()
    wait_until(lambda: isinstance(controller.reconcile(), Kill), PATIENCE_S, "the silence is not noticed")
    assert started_at(driver.pid) is None
    ended = control_of(controller)
    assert ended.launch is not None
    assert ended.launch.end_reason.startswith("the driver hangs: its status (running) is")
    assert ended.reason == f"ended: {ended.launch.end_reason}", "as the last release reads it"
    reach(controller, Healthy)
    again = control_of(controller)
    assert again.last_failure == Failure("ended", ended.launch.end_reason)
    assert again.launch is not None and again.launch.end_reason == ""
    assert "crash: the driver hangs: its status (running) is" in again.reason


def test_a_driver_that_always_fails_is_given_up_and_a_new_wish_starts_afresh(
    make: Callable[..., Controller],
) -> None:
    controller = make()
    fail = controller.settings.home / "fail"
    fail.touch()
    controller.request(wish("run", "test"))
    given_up = reach(controller, GiveUp)
    assert "asked to fail" in given_up.reason
    assert "ValueError: the reason is in the log" in log_tail(controller.layout, control_of(controller))
    # The first start, and two restarts.
    assert len(starts(controller)) == 3
    assert control_of(controller).failures == 2
    fail.unlink()
    assert isinstance(controller.reconcile(), GiveUp)
    controller.start_afresh("test")
    run(controller)
    # What counts against the attempts is forgotten; what has failed is not.
    assert (len(control_of(controller).restarts), control_of(controller).failures) == (1, 3)


def test_what_no_restart_cures_is_tried_once_and_again_when_a_person_asks(
    make: Callable[..., Controller],
) -> None:
    controller = make()
    fail = controller.settings.home / "fail"
    fail.write_text("topic")
    controller.request(wish("run", "test"))
    given_up = reach(controller, GiveUp)
    assert "asked to fail. A restart does not cure that: create the topic" in given_up.reason
    assert len(starts(controller)) == 1
    for attempts in (2, 3):
        controller.start_afresh("test")
        if attempts == 3:
            fail.unlink()
            run(controller)
        else:
            reach(controller, GiveUp)
        assert len(starts(controller)) == attempts
    assert (control_of(controller).failures, control_of(controller).reason) == (0, "asked to run")


def test_a_crash_brings_in_nothing_new_and_a_restart_what_is_deployed(
    make: Callable[..., Controller],
) -> None:
    controller = make()
    driver = run(controller)
    deployed = controller.launcher
    assert isinstance(deployed, StandInLauncher)
    deployed.deployed = "code2-yaml1"
    driver.kill()
    wait_until(lambda: started_at(driver.pid) is None, PATIENCE_S, "the driver does not end")
    reach(controller, Healthy)
    assert (len(starts(controller)), control_of(controller).release) == (2, "code1-yaml1")
    controller.request(wish("restart", "another run"))
    reach(controller, Healthy)
    assert (len(starts(controller)), control_of(controller).release) == (3, "code2-yaml1")


def test_what_a_killed_driver_leaves_behind_is_ended_before_the_next_start(
    make: Callable[..., Controller],
) -> None:
    controller = make()
    driver = run(controller)
    environment = launch.driver_environment(os.environ, controller.settings, STREAM, "earlier")
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    orphan = driver_process.start(DriverCommand(sleep, environment), controller.settings.home / "log")
    driver.kill()
    wait_until(lambda: started_at(driver.pid) is None, PATIENCE_S, "the driver does not end")
    reach(controller, Healthy)
    assert started_at(orphan) is None


def test_a_start_whose_process_id_was_lost_is_found_and_not_repeated(
    make: Callable[..., Controller],
) -> None:
    controller = make()
    run(controller)
    lost = control_of(controller)
    assert lost.launch is not None
    controller._write(replace(lost, launch=replace(lost.launch, pid=None, pid_started=None)))
    assert isinstance(settle(controller, pause, NOTHING_DUE), Healthy)
    assert len(starts(controller)) == 1


def test_the_lock_names_its_file_when_someone_keeps_it(
    make: Callable[..., Controller], monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = make()
    monkeypatch.setattr("stateward.control.reconcile.executor._LOCK_TIMEOUT_S", 0.1)
    with locked(controller.layout, STREAM), pytest.raises(TimeoutError, match=f"{STREAM}.lock"):
        controller.request(wish("run", "test"))
