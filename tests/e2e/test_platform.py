"""`stateward up`, `down` and `status` on real processes, some of which are killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from stateward.contract.names import ENV_DRIVER_STREAM, ENV_HOME, ENV_MANAGED, ENV_PART
from stateward.platform.parts.supervisord import socket_path
from stateward.platform.secrets import passwords_file
from stateward.platform.topics import ensure_topic, partition_count
from tests.support.control.installation import STATEWARD, Installation
from tests.support.full import ci_full, only_full
from tests.support.pages.buttons import press
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

PART_NAMES = ("kafka", "api-server", "dag-processor", "scheduler", "triggerer")

# Stands for a driver: it writes down that it was asked to leave, and leaves.
DRIVER = """
import pathlib, signal, sys, threading
left = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: left.set())
pathlib.Path(sys.argv[1]).write_text("running")
while not left.wait(0.1):
    pass
pathlib.Path(sys.argv[1]).write_text("drained")
"""


def start_marked(note: Path, home: Path, **marks: str) -> subprocess.Popen[bytes]:
    """Start a stand-in process that carries the marks of the installation at `home`."""
    environ = {**os.environ, ENV_HOME: str(home), ENV_MANAGED: "1", **marks}
    process = subprocess.Popen([sys.executable, "-c", DRIVER, str(note)], env=environ, start_new_session=True)
    wait_until(note.exists, PATIENCE_S, "the stand-in runs")
    return process


@pytest.fixture
def driver(platform: Installation, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A stand-in for a stream's driver, as a task of the scheduler would have started it."""
    note = tmp_path / "driver"
    marks = {ENV_DRIVER_STREAM: "some_stream", ENV_PART: "scheduler"}
    process = start_marked(note, platform.settings.home, **marks)
    yield process, note
    process.kill()
    process.wait()


def test_up_twice_is_harmless(platform: Installation) -> None:
    before = platform.pids()
    platform.must_run("up")
    assert platform.pids() == before
    assert None not in before.values()


def test_two_ups_at_once_leave_one_platform(platform: Installation) -> None:
    before = platform.pids()
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda _: platform.must_run("up"), range(2)))
    assert platform.pids() == before


def test_status_finds_the_platform_by_its_home_alone(platform: Installation) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("STATEWARD_")}
    environ[ENV_HOME] = str(platform.settings.home)
    found: dict[str, dict[str, Any]] = {}

    def all_are_ready() -> bool:
        run = subprocess.run([STATEWARD, "status", "--json"], env=environ, capture_output=True, check=True)
        found.update({part["name"]: part for part in json.loads(run.stdout)["parts"]})
        # A part that is busy for a moment may not answer in time.
        return {part["state"] for part in found.values()} == {"ready"}

    wait_until(all_are_ready, PATIENCE_S, lambda: f"every part is ready: {found}", poll_s=1)
    assert found["kafka"]["address"] == f"127.0.0.1:{platform.settings.kafka_port}"


def test_secrets_are_for_their_user_only(platform: Installation) -> None:
    airflow_home = platform.layout.airflow_home
    for path in (airflow_home / "secrets.json", passwords_file(airflow_home)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    configuration = (platform.layout.supervisor_dir / "supervisord.conf").read_text()
    assert platform.password not in configuration


def test_clicks_at_once_are_all_answered(platform: Installation) -> None:
    """Each writes while others do: without `OneWriteAtATime` nothing was answered for minutes."""
    dag = "/dags/state_operations"

    def click(_: int) -> None:
        with platform.airflow() as api:
            run = press(api, "POST", f"{dag}/dagRuns", {"logical_date": None})["dag_run_id"]
            press(api, "DELETE", f"{dag}/dagRuns/{run}")

    with platform.airflow() as api:
        wait_until(lambda: api.has_dag("state_operations"), PATIENCE_S, "its DAG is parsed", poll_s=1)
        press(api, "PATCH", dag, {"is_paused": True})
        try:
            with ThreadPoolExecutor(6) as people:
                list(people.map(click, range(24)))
        finally:
            press(api, "PATCH", dag, {"is_paused": False})


@ci_full
def test_a_half_sent_request_stops_nobody(platform: Installation) -> None:
    """A client that promises a body and does not send it: without a token, so it may be anybody."""
    port = platform.settings.airflow_port
    with socket.create_connection(("127.0.0.1", port)) as half, platform.airflow() as api:
        half.sendall(
            b"POST /auth/token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
        wait_until(lambda: api.has_dag("state_operations"), PATIENCE_S, "its DAG is parsed", poll_s=1)
        for paused in (True, False):
            press(api, "PATCH", "/dags/state_operations", {"is_paused": paused})
        half.settimeout(90)
        assert b" 408 " in half.recv(1000).splitlines()[0]


@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=() if part == "scheduler" else only_full) for part in PART_NAMES]
)
def test_a_killed_part_comes_back_by_itself(
    platform: Installation, driver: tuple[subprocess.Popen[bytes], Path], part: str
) -> None:
    before = platform.wait_ready()[part]["pid"]
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: platform.pids()[part] not in (None, before), PATIENCE_S, f"{part} has another process")
    platform.wait_ready()
    assert driver[0].poll() is None, "a driver outlives every part"


@ci_full
def test_a_part_that_dies_at_start_says_why_and_comes_back_when_it_is_mended(
    platform: Installation,
) -> None:
    pid = platform.wait_ready()["kafka"]["pid"]
    broken = platform.settings.home / "kafka" / "logs" / "meta.properties"
    sound = broken.read_text()
    broken.write_text(sound.replace("node.id=1", "node.id=2"))
    try:
        os.kill(pid, signal.SIGKILL)
        # Whether it is BACKOFF, or RUNNING for some seconds, depends on how long it takes to find out.
        wait_until(
            lambda: "Stored node id 2" in platform.must_run("logs", "kafka"),
            PATIENCE_S,
            lambda: f"the broker says why it ends; found {platform.parts()}",
            poll_s=1,
        )
        assert platform.parts()["kafka"]["state"] != "ready"
    finally:
        broken.write_text(sound)
    platform.wait_ready()


@ci_full
def test_up_repairs_after_the_supervisor_was_killed(
    platform: Installation, driver: tuple[subprocess.Popen[bytes], Path]
) -> None:
    before = platform.pids()
    supervisor = psutil.Process(before["kafka"]).ppid()
    os.kill(supervisor, signal.SIGKILL)
    platform.must_run("up")
    after = platform.wait_ready()
    brokers = [one for one in platform.processes() if one.part == "kafka"]
    assert [one.process.pid for one in brokers] == [after["kafka"]["pid"]], "the orphaned broker is gone"
    assert not any(psutil.pid_exists(pid) and _alive(pid) for pid in before.values() if pid)
    assert driver[0].poll() is None, "`up` leaves drivers alone"


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_other_settings_are_refused_while_it_runs(platform: Installation) -> None:
    changed = Installation(platform.settings.model_copy(update={"airflow_worker_log_port": 1}))
    run = changed.run("up")
    assert run.returncode == 1
    assert "STATEWARD_AIRFLOW_WORKER_LOG_PORT" in run.stderr
    assert "stateward down" in run.stderr


@ci_full
def test_down_drains_drivers_leaves_nothing_and_up_goes_on(
    platform: Installation, driver: tuple[subprocess.Popen[bytes], Path], tmp_path: Path
) -> None:
    ensure_topic(platform.settings.kafka_bootstrap, "kept", 2, create=True)
    other_note = tmp_path / "other"
    other = start_marked(other_note, tmp_path / "another-home")
    try:
        platform.must_run("down")
        assert driver[1].read_text() == "drained"
        assert platform.processes() == []
        assert other.poll() is None, "processes of another installation are left alone"
        left = [
            path
            for pattern in ("**/*.lock", "**/.lock", "**/*.pid", "**/*.sock")
            for path in platform.settings.home.glob(pattern)
            # A file that is locked for a moment, of Data Docs or of a stream, stays, and means nothing.
            if not any(path.is_relative_to(platform.settings.home / folder) for folder in ("data", "locks"))
        ]
        assert left == []
        assert not socket_path(platform.layout).exists()
        assert {part["state"] for part in platform.parts().values()} == {"down"}
        platform.must_run("down")
    finally:
        other.kill()
        other.wait()
        platform.must_run("up")
    assert partition_count(platform.settings.kafka_bootstrap, "kept") == 2


def test_a_port_in_use_is_named_with_its_setting_and_nothing_is_started(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        installation = Installation.in_folder(tmp_path / "home", airflow_port=port)
        run = installation.run("up")
        assert run.returncode == 1
        assert f"port {port} is in use" in run.stderr
        assert f"pid {os.getpid()}" in run.stderr
        assert "STATEWARD_AIRFLOW_PORT" in run.stderr
    assert installation.processes() == []
    assert installation.run("down").returncode == 0
