"""Looking at a stream through real files and real processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from stateward.contract.lease import read_lease
from stateward.contract.names import ENV_DRIVER_RUN_ID, ENV_DRIVER_STREAM
from stateward.contract.process_identity import ProcessIdentity, driver_process, host_identity, started_at
from stateward.contract.reading import InvalidDocumentError, as_json
from stateward.contract.storage import write_json
from stateward.contract.stream_control import SILENT, Control, Failure, Hold, Launch, control_from
from stateward.control.launchers import processes
from stateward.control.launchers.driver_exit import Presence
from stateward.control.launchers.drivers import driver_of
from stateward.control.reconcile.leader_heartbeat import STALE_AFTER, claim, release, renew
from stateward.control.reconcile.observe import observe, read_control, read_supervisor
from stateward.project.layout import Layout
from tests.support.waiting import PATIENCE_S, wait_until

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(home=tmp_path, data=f"file://{tmp_path}/data")


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with the marks of a driver of the stream `s`, run `r1`."""
    marks = {
        ENV_DRIVER_STREAM: "s",
        ENV_DRIVER_RUN_ID: "r1",
        "STATEWARD_HOME": str(tmp_path),
    }
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=marks)
    yield process
    process.kill()
    process.wait()


def locate(layout: Layout, stream: str, launch: Launch) -> Presence:
    return driver_of(layout.home, stream, launch).look()


def launch_of(process: subprocess.Popen[bytes]) -> Launch:
    return Launch(
        run_id="r1",
        at=NOW,
        host=host_identity(),
        log="/l",
        pid=process.pid,
        pid_started=started_at(process.pid),
    )


def test_a_process_is_alive_until_it_is_killed(layout: Layout, child: subprocess.Popen[bytes]) -> None:
    launch = launch_of(child)
    assert locate(layout, "s", launch) is Presence.ALIVE
    child.kill()
    # Not waited for: it is a zombie, which must count as gone.
    wait_until(lambda: psutil.Process(child.pid).status() == "zombie", PATIENCE_S, "the child is no zombie")
    assert locate(layout, "s", launch) is Presence.GONE


def test_a_process_id_that_is_used_again_is_not_the_driver(
    layout: Layout, child: subprocess.Popen[bytes]
) -> None:
    launch = launch_of(child)
    assert launch.pid_started is not None
    for seconds, there in ((-3600, False), (-1.5, True), (1.5, True), (3, False)):
        started = launch.pid_started + seconds
        found = locate(layout, "s", replace(launch, pid_started=started))
        assert found is (Presence.ALIVE if there else Presence.GONE)
        assert ProcessIdentity(launch.host, child.pid, started).is_gone(launch.host) is not there


@pytest.fixture
def clock_that_jumps(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A STAND-IN for setting the machine's clock, which no test may do: the time of its boot jumps."""
    kernel = psutil._pslinux
    booted = kernel.boot_time()

    def jump(seconds: float) -> None:
        monkeypatch.setattr(kernel, "boot_time", lambda: booted + seconds)

    return jump


@pytest.mark.skipif(sys.platform != "linux", reason="where psutil reads the time of the boot differs")
@pytest.mark.parametrize("seconds", [60, -60])
def test_a_clock_that_jumps_makes_no_process_another_one(
    layout: Layout,
    child: subprocess.Popen[bytes],
    clock_that_jumps: Callable[[float], None],
    seconds: float,
) -> None:
    launch = launch_of(child)
    holder, host = driver_process(), host_identity()
    clock_that_jumps(seconds)
    assert locate(layout, "s", launch) is Presence.ALIVE
    assert holder.is_gone(host) is False
    assert launch_of(child).pid_started == pytest.approx(launch.pid_started, abs=0.01)


def test_a_start_as_an_earlier_release_has_noted_it_still_counts(
    layout: Layout, child: subprocess.Popen[bytes]
) -> None:
    created = psutil.Process(child.pid).create_time()
    assert locate(layout, "s", replace(launch_of(child), pid_started=created)) is Presence.ALIVE
    assert locate(layout, "s", replace(launch_of(child), pid_started=created - 3600)) is Presence.GONE


def test_a_process_id_of_another_host_or_boot_means_nothing_here(
    layout: Layout, child: subprocess.Popen[bytes]
) -> None:
    assert locate(layout, "s", replace(launch_of(child), host="other/boot/ns")) is Presence.ELSEWHERE


def test_a_driver_whose_process_id_was_not_written_down_is_found_by_its_marks(
    layout: Layout, child: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    unknown = replace(launch_of(child), pid=None, pid_started=None)
    wait_until(lambda: processes.find_by_env(layout.home, "s"), PATIENCE_S, "the child has no marks")
    assert locate(layout, "s", unknown) is Presence.ALIVE
    assert locate(layout, "s", replace(unknown, run_id="r2")) is Presence.GONE
    assert locate(layout, "other", unknown) is Presence.GONE
    assert locate(Layout(tmp_path / "elsewhere", layout.data), "s", unknown) is Presence.GONE


def test_killing_ends_every_marked_process(layout: Layout, child: subprocess.Popen[bytes]) -> None:
    launch = launch_of(child)
    wait_until(lambda: processes.find_by_env(layout.home, "s"), PATIENCE_S, "the child has no marks")
    assert processes.kill(processes.find_by_env(layout.home, "s"), timeout_s=10) == []
    assert locate(layout, "s", launch) is Presence.GONE
    assert processes.find_by_env(layout.home, "s") == []


def test_an_untouched_stream_is_observed_as_nothing(layout: Layout) -> None:
    seen = observe(layout, "s")
    assert (seen.control, seen.status, seen.driver) == (None, None, Presence.GONE)
    assert read_lease(layout.lease_uri("s")) is None


def test_an_unreadable_status_counts_as_silence_and_an_unreadable_control_stops_everything(
    layout: Layout,
) -> None:
    write_json(layout.status_uri("s"), {"stream": "s", "state": "dancing"})
    assert observe(layout, "s").status is None
    write_json(layout.control_uri("s"), {"stream": "s", "desired": "maybe", "run_id": "r"})
    with pytest.raises(
        InvalidDocumentError, match="desired: expected one of running, suspended, stopped, found 'maybe'"
    ):
        read_control(layout, "s")


def test_the_control_document_survives_writing_and_reading(layout: Layout) -> None:
    killed = Failure("killed", "driver process gone: its JVM was killed by SIGKILL", "SIGKILL")
    launch = Launch("r1", NOW, "h", "/l", 7, 1.5, killed, "the driver hangs")
    hold = Hold("state_operations/manual", "repartition", NOW)
    restarts = (NOW, NOW + timedelta(seconds=1))
    full = Control("s", "running", "r1", NOW, "me", "why", launch, restarts, 7, NOW, hold)
    asked = replace(full, launch=Launch("r1", NOW, "h", "/l"), reason="crash: and ended: are mere words here")
    for control in (full, asked, replace(full, launch=None, restarts=(), hold=None)):
        write_json(layout.control_uri("s"), as_json(control))
        assert read_control(layout, "s") == control


@pytest.mark.parametrize(
    ("reason", "failure", "end_reason"),
    [
        ("asked to run", None, ""),
        ("crash: driver failed: why", Failure("reported", "driver failed: why"), ""),
        ("crash: driver process gone (last)", Failure("gone", "driver process gone (last)"), ""),
        (f"crash: {SILENT}", Failure("gone", SILENT), ""),
        (f"crash: {SILENT}: no such option", Failure("not_started", f"{SILENT}: no such option"), ""),
        (
            f"crash: {SILENT}: killed by SIGBUS",
            Failure("killed", f"{SILENT}: killed by SIGBUS", "SIGBUS"),
            "",
        ),
        ("ended: the driver hangs", None, "the driver hangs"),
    ],
)
def test_the_last_release_says_in_the_reason_what_is_a_field_now(
    reason: str, failure: Failure | None, end_reason: str
) -> None:
    document = as_json(Control("s", "running", "r1", NOW, "me", reason, Launch("r1", NOW, "h", "/l")))
    of_the_last = {
        name: value for name, value in document["launch"].items() if name not in ("failure", "end_reason")
    }
    launch = control_from({**document, "launch": of_the_last}).launch
    assert launch is not None
    assert (launch.failure, launch.end_reason) == (failure, end_reason)


def test_a_failure_of_a_kind_that_a_newer_release_knows_is_read() -> None:
    document = as_json(Control("s", "running", "r1", NOW, "me", "why", Launch("r1", NOW, "h", "/l")))
    newer = {**document["launch"], "failure": {"kind": "of tomorrow", "cause": "why", "more": 1}}
    launch = control_from({**document, "launch": newer}).launch
    assert launch is not None
    assert launch.failure == Failure("reported", "why")
    with pytest.raises(InvalidDocumentError, match="cause"):
        control_from({**document, "launch": {**newer, "failure": {"kind": "gone"}}})


def test_times_without_a_zone_are_refused() -> None:
    document = as_json(Control("s", "running", "r1", NOW, "me", "why"))
    with pytest.raises(InvalidDocumentError, match="expected a time such as"):
        control_from({**document, "requested_at": "2026-01-31T12:00:00"})


def test_one_dag_run_supervises_until_its_heartbeat_is_stale_or_given_up(layout: Layout) -> None:
    assert claim(layout, "s", "dag/first", NOW) is None
    other = claim(layout, "s", "dag/second", NOW + timedelta(seconds=20))
    assert other is not None
    assert other.dag_run == "dag/first"
    assert renew(layout, "s", "dag/first", NOW + timedelta(seconds=25)) is None
    assert claim(layout, "s", "dag/second", NOW + STALE_AFTER + timedelta(seconds=1)) is not None
    late = NOW + timedelta(seconds=26) + STALE_AFTER
    assert claim(layout, "s", "dag/second", late) is None
    superseded = renew(layout, "s", "dag/first", late)
    assert superseded is not None
    assert superseded.dag_run == "dag/second"
    release(layout, "s", "dag/first")
    assert read_supervisor(layout, "s") is not None
    release(layout, "s", "dag/second")
    assert read_supervisor(layout, "s") is None
    assert claim(layout, "s", "dag/first", late) is None
