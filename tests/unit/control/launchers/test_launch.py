"""What a driver is started with: its log, environment, folder and configuration."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stateward.airflow import spark_submit
from stateward.contract.names import ENV_DRIVER_STREAM
from stateward.contract.process_output import DriverExit
from stateward.control.launchers import detach, driver_process, launch, processes
from stateward.control.launchers.driver_exit import Exit
from stateward.control.launchers.driver_process import DriverCommand, LaunchError
from stateward.project.layout import Layout
from stateward.project.settings import CHECKOUT, Settings
from stateward.project.spec import load_spec
from tests.support.waiting import PATIENCE_S, wait_until

STREAM = "user_sessions"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


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
    assert environment[ENV_DRIVER_STREAM] == STREAM
    assert (Path(environment["SPARK_HOME"]) / "bin" / "spark-submit").is_file()


def test_a_submission_names_every_jar_and_is_refused_without_any(tmp_path: Path) -> None:
    settings = Settings(jars=tmp_path)
    with pytest.raises(LaunchError, match=r"expected Spark's JARs in .*/spark, found none"):
        launch.spark_jars(settings)
    (tmp_path / "spark").mkdir()
    for name in ("b.jar", "a.jar", "a.txt"):
        (tmp_path / "spark" / name).touch()
    assert launch.spark_jars(settings) == f"{tmp_path}/spark/a.jar,{tmp_path}/spark/b.jar"


def test_executors_are_told_where_the_file_is_that_lets_them_into_kafka(tmp_path: Path) -> None:
    named = {"spark.executorEnv.STATEWARD_KAFKA_CLIENT": f"{tmp_path}/kafka.properties"}
    settings = Settings(home=tmp_path, kafka_client=tmp_path / "kafka.properties")
    assert spark_submit._kafka_file(settings) == named
    assert spark_submit._kafka_file(Settings(home=tmp_path, kafka_client=None)) == {}
    environment = launch.driver_environment({}, settings, STREAM, "r1")
    assert environment["STATEWARD_KAFKA_CLIENT"] == f"{tmp_path}/kafka.properties"


def test_a_driver_works_in_the_folder_of_its_code(settings: Settings, tmp_path: Path) -> None:
    """Otherwise `-m`, with which Spark starts its Python workers, would find other code first."""
    code = tmp_path / "release"
    (code / "spark_jobs").mkdir(parents=True)
    (code / "spark_jobs" / "__init__.py").write_text("print('of the release')")
    environment = launch.driver_environment(os.environ, settings, STREAM, "r1", code)
    command = DriverCommand([sys.executable, "-m", "spark_jobs.__init__"], environment)
    driver_process.start(command, tmp_path / "log")
    wait_until((tmp_path / "log").read_text, PATIENCE_S, "it says nothing")
    assert (tmp_path / "log").read_text().startswith("of the release")


def exit_noted(log: str, pid: int) -> Exit | None:
    noted = detach.end_noted(log, pid)
    return Exit(*noted) if noted else None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("stateward: process 7 was killed by SIGKILL", Exit("SIGKILL")),
        ("stateward: process 7 exited with 137", Exit(code=137)),
        ('{"stateward": "process_ended", "pid": 7, "signal": "SIGBUS", "code": null}', Exit("SIGBUS")),
        ('{"stateward": "process_ended", "pid": 8, "signal": "SIGBUS", "code": null}', None),
        ('{"stateward": "process_ended", "pid": 7}', None),
        ('{"stateward": "process_ended", "pid": 7, "sig', None),
        ("7: process_ended", None),
        ("it says: stateward: process 7 exited with 1", None),
    ],
)
def test_the_end_of_a_process_is_read_as_this_release_and_the_last_one_note_it(
    line: str, expected: Exit | None
) -> None:
    assert exit_noted(f"INFO starting\n{line}\n", 7) == expected


def test_the_last_release_reads_the_end_of_a_process_too() -> None:
    of_the_last = r"^stateward: process (\d+) (?:was killed by (SIG\w+)|exited with (\d+))$"
    for code, expected in ((-9, ("7", "SIGKILL", "")), (3, ("7", "", "3"))):
        assert re.findall(of_the_last, detach._note(7, code), re.MULTILINE) == [expected]


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", Exit("SIGKILL")),
        ("os.kill(os.getpid(), signal.SIGSEGV)", Exit("SIGSEGV")),
        ("sys.exit(3)", Exit(code=3)),
        ("pass", Exit(code=0)),
    ],
)
def test_the_log_says_how_a_driver_has_ended(
    settings: Settings, tmp_path: Path, ends: str, expected: Exit
) -> None:
    environment = launch.driver_environment(os.environ, settings, STREAM, "r1", tmp_path)
    program = f"import os, signal, sys; print('no line feed', end='', flush=True); input(); {ends}"
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    command = ["bash", "-c", 'exec "$0" -c "$1" < "$2"', sys.executable, program, str(gate)]
    log = tmp_path / "log"
    pid = driver_process.start(DriverCommand(command, environment), log)

    [driver] = processes.find_by_env(settings.home, STREAM)
    assert driver.pid == pid, "the process that waits for it is none of the driver's"
    waits = driver.parent()
    assert waits is not None and waits.ppid() != os.getpid()
    assert exit_noted(log.read_text(), pid) is None
    gate.write_text("\n")

    found = wait_until(
        lambda: exit_noted(log.read_text(), pid), PATIENCE_S, lambda: f"its end: {log.read_text()}"
    )
    assert found == expected
    assert exit_noted(log.read_text(), pid + 1) is None
    wait_until(lambda: not waits.is_running(), PATIENCE_S, "the process that waits has ended too")


def test_a_program_that_is_missing_is_an_error_that_names_it(settings: Settings, tmp_path: Path) -> None:
    command = DriverCommand(["no-such-program"], {"PATH": "/bin"})
    with pytest.raises(driver_process.LaunchError, match="no-such-program"):
        driver_process.start(command, tmp_path / "log")


def test_a_driver_starts_by_the_entry_point_that_its_release_has(tmp_path: Path) -> None:
    folder = tmp_path / "spark_jobs" / STREAM
    folder.mkdir(parents=True)
    with pytest.raises(driver_process.LaunchError, match=f"stream {STREAM}: expected its declaration at"):
        launch.entry_point(STREAM, tmp_path)
    (folder / "declaration.py").touch()
    assert launch.entry_point(STREAM, tmp_path) == tmp_path / "stateward" / "driver.py"
    # As in every release before 0.2.
    (folder / "job.py").touch()
    assert launch.entry_point(STREAM, tmp_path) == folder / "job.py"


def test_the_entry_point_finds_the_library_and_the_standard_library(tmp_path: Path) -> None:
    entry = launch.entry_point(STREAM, CHECKOUT)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, str(entry)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.splitlines()[-1:]) == (
        DriverExit.FAILED,
        ["usage: spark-submit driver.py <URI of the configuration>"],
    )


def test_the_resolved_configuration_is_what_a_driver_accepts(settings: Settings) -> None:
    from stateward.runtime.api.config import parse_config

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
