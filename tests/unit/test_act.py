"""Acting on a stream: real processes, started as drivers are, with a stand-in for the driver."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from include.control import driver_process, launch, processes
from include.control.act import Controller, Prepared, locked, log_tail
from include.control.decide import Done, GiveUp, Healthy, Kill
from include.control.driver_process import DriverCommand
from include.control.observe import read_control, read_status
from include.control.settle import NOTHING_DUE, REACHED, settle
from include.control.status import Control
from include.layout import Layout
from include.settings import CHECKOUT, Settings
from include.spec import StreamSpec, load_spec
from include.spec_health import Health, Restart
from include.storage import write_json
from tests.waiting import wait_until
from tests.wishing import wish

STREAM = "user_sessions"


@dataclass
class StandInLauncher:
    """Starts tests/stand_in_driver.py in the way that drivers are started, without Spark."""

    spec: StreamSpec
    settings: Settings
    at_start: list[Control | None] = field(default_factory=list)
    deployed: str = "code1-yaml1"

    def prepare(self, run_id: str, now: datetime, release: str | None) -> Prepared:
        layout = Layout.of(self.settings)
        configuration = launch.resolved_configuration(self.spec, self.settings, run_id)
        write_json(layout.config_uri(STREAM), configuration)
        return Prepared(driver_process.log_file(layout, STREAM, run_id, now), release or self.deployed)

    def start(self, run_id: str, log_file: Path) -> int:
        layout = Layout.of(self.settings)
        self.at_start.append(read_control(layout, STREAM))
        script = str(CHECKOUT / "tests" / "stand_in_driver.py")
        arguments = [sys.executable, script, layout.config_uri(STREAM)]
        environment = launch.driver_environment(os.environ, self.settings, STREAM, run_id)
        return driver_process.start(DriverCommand(arguments, environment), log_file)


def quick(spec: StreamSpec, **health: Any) -> StreamSpec:
    """The shipped spec with shorter deadlines, so that tests need not wait."""
    short = Health(
        max_status_age=timedelta(seconds=2),
        start_deadline=timedelta(seconds=20),
        stop_deadline=timedelta(seconds=10),
    )
    restart = Restart(backoff=timedelta(milliseconds=50), max_attempts=2, window=timedelta(minutes=5))
    return spec.model_copy(update={"health": short.model_copy(update=health), "restart": restart})


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
    processes.kill(processes.marked(settings.home, STREAM), timeout_s=10)


def pause() -> None:
    threading.Event().wait(0.05)


def reach(controller: Controller, expected: type[Any]) -> Any:
    action = settle(controller, pause, REACHED)
    assert isinstance(action, expected), action
    return action


def control_of(controller: Controller) -> Control:
    control = read_control(controller.layout, STREAM)
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
    assert processes.started_at(driver.pid) is None
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
    seen = []
    wait_until(
        lambda: seen.append(controller.reconcile()) or isinstance(seen[-1], Done),
        30,
        lambda: f"the driver was not ended: {seen[-1]}",
    )
    kills = [action.how for action in seen if isinstance(action, Kill)]
    assert (kills[0], kills[-1]) == ("terminate", "kill")
    assert processes.started_at(driver.pid) is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_driver_that_ends_is_started_again(make: Callable[..., Controller], number: int) -> None:
    controller = make()
    driver = run(controller)
    driver.send_signal(number)
    wait_until(lambda: processes.started_at(driver.pid) is None, 10, "the driver does not end")
    reach(controller, Healthy)
    assert driver_of(controller) != driver
    assert len(starts(controller)) == 2


def test_a_driver_that_hangs_is_killed_and_started_again(make: Callable[..., Controller]) -> None:
    controller = make()
    driver = run(controller)
    driver.suspend()
    wait_until(lambda: isinstance(controller.reconcile(), Kill), 20, "the silence is not noticed")
    assert processes.started_at(driver.pid) is None
    reach(controller, Healthy)
    assert "crash: driver process gone (last reported running" in control_of(controller).reason


def test_a_driver_that_always_fails_is_given_up_and_a_new_wish_starts_afresh(
    make: Callable[..., Controller],
) -> None:
    controller = make()
    fail = controller.settings.home / "fail"
    fail.touch()
    controller.request(wish("run", "test"))
    given_up = reach(controller, GiveUp)
    assert "asked to fail" in given_up.reason
    assert "ValueError: the reason is in the log" in log_tail(control_of(controller))
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
    wait_until(lambda: processes.started_at(driver.pid) is None, 10, "the driver does not end")
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
    wait_until(lambda: processes.started_at(driver.pid) is None, 10, "the driver does not end")
    reach(controller, Healthy)
    assert processes.started_at(orphan) is None


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
    monkeypatch.setattr("include.control.act._LOCK_TIMEOUT_S", 0.1)
    with locked(controller.layout, STREAM), pytest.raises(TimeoutError, match=f"{STREAM}.lock"):
        controller.request(wish("run", "test"))


def test_only_the_newest_logs_are_kept(settings: Settings) -> None:
    layout = Layout.of(settings)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for day in range(15):
        driver_process.log_file(layout, STREAM, f"run{day}", start + timedelta(days=day)).touch()
    kept = sorted(path.name for path in layout.driver_log_dir(STREAM).iterdir())
    assert len(kept) == driver_process.KEPT_LOGS
    assert kept[-1] == "driver-20260115T000000Z-run14.log"


def test_a_driver_inherits_nothing_of_airflow(settings: Settings) -> None:
    inherited = {
        "PATH": "/bin",
        "AIRFLOW_CTX_DAG_ID": "x",
        "_AIRFLOW_PROCESS_CONTEXT": "x",
        "AIRFLOW__CORE__FERNET_KEY": "secret",
        "JAVA_HOME": "/java",
        "STATEWARD_METRICS_TOKEN": "secret",
    }
    environment = launch.driver_environment(inherited, settings, STREAM, "r1")
    assert "secret" not in environment.values()
    assert not [name for name in environment if "AIRFLOW" in name and not name.startswith("STATEWARD_")]
    assert environment["JAVA_HOME"] == "/java"
    assert environment["PYSPARK_PYTHON"] == sys.executable
    assert environment["STATEWARD_HOME"] == str(settings.home)
    assert environment[processes.MARK_STREAM] == STREAM
    assert (Path(environment["SPARK_HOME"]) / "bin" / "spark-submit").is_file()


def test_a_driver_works_in_the_folder_of_its_code(settings: Settings, tmp_path: Path) -> None:
    """Otherwise `-m`, with which Spark starts its Python workers, would find other code first."""
    code = tmp_path / "release"
    (code / "spark_jobs").mkdir(parents=True)
    (code / "spark_jobs" / "__init__.py").write_text("print('of the release')")
    environment = launch.driver_environment(os.environ, settings, STREAM, "r1", code)
    command = DriverCommand([sys.executable, "-m", "spark_jobs.__init__"], environment)
    driver_process.start(command, tmp_path / "log")
    wait_until((tmp_path / "log").read_text, 20, "it says nothing")
    assert (tmp_path / "log").read_text().startswith("of the release")


def test_a_program_that_is_missing_is_an_error_that_names_it(settings: Settings, tmp_path: Path) -> None:
    command = DriverCommand(["no-such-program"], {"PATH": "/bin"})
    with pytest.raises(driver_process.LaunchError, match="no-such-program"):
        driver_process.start(command, tmp_path / "log")


def test_the_resolved_configuration_is_what_a_driver_accepts(settings: Settings) -> None:
    from spark_jobs.runtime.config import parse_config

    document = launch.resolved_configuration(load_spec(STREAM), settings, "r1")
    config = parse_config(document, "test")
    assert (config.stream, config.run_id, config.topic) == (STREAM, "r1", "user_events")
    assert config.not_before == datetime(2000, 1, 1, tzinfo=UTC)
    assert (config.state_buckets, config.state_cache_dir) == (64, str(settings.home / "cache" / STREAM))


@pytest.mark.parametrize(
    ("embedded", "cache", "expected"),
    [(True, "/srv/cache", "/srv/cache"), (False, "/srv/cache", "/srv/cache"), (False, None, None)],
)
def test_the_cache_is_the_one_asked_for_and_a_temporary_folder_elsewhere(
    settings: Settings, embedded: bool, cache: str | None, expected: str | None
) -> None:
    spec = load_spec(STREAM)
    spec = spec.model_copy(update={"state": spec.state.model_copy(update={"cache": cache})})
    elsewhere = settings.model_copy(update={"embedded": embedded})
    assert launch.resolved_configuration(spec, elsewhere, "r1")["state_cache_dir"] == expected
