"""A driver waits for a dead one's lease, and leaves before it writes to a checkpoint that is not for it."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from spark_jobs.device_lifecycle.declaration import JOB
from stateward.contract.process_identity import ProcessIdentity, driver_process
from stateward.contract.process_output import DriverExit
from stateward.driver import CHECKS, run
from stateward.runtime.driver import driver as drivers
from stateward.runtime.driver import entry
from stateward.runtime.driver.jvm_watchdog import ParentJvm
from stateward.runtime.lease.lease import Lease
from stateward.runtime.telemetry.status import StatusFile
from stateward.state.compatibility.start import note_start
from tests.support.spark import stand_in_jvm
from tests.unit.runtime.telemetry.test_documents import CONFIG
from tests.unit.state.compatibility.test_descriptor import checksums, config_of, planned

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_driver_refuses_a_state_that_is_not_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stateward.runtime.driver.signals.handle_in_python", lambda ask: None)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    first = config_of("device_lifecycle", tmp_path)
    checkpoint = planned(first, tmp_path)
    note_start(JOB, first)
    before = checksums(checkpoint)
    config = replace(first, clock="processing", status_uri=f"file://{tmp_path}/status.json")
    process = driver_process()
    lease = Lease(
        f"file://{tmp_path}/lease", stream=config.stream, run_id="run-2", holder=process, ttl_ms=20_000
    )
    epoch = lease.acquire().epoch
    status = StatusFile(
        config.status_uri,
        stream=config.stream,
        run_id="run-2",
        process=process,
        python_pid=1,
        clock=lambda: NOW,
    )

    no_session = partial(pytest.fail, "no session is needed")
    code = drivers.Driver(JOB, config, lease, status, CHECKS, session=no_session, jvm=ParentJvm()).run()

    assert code == DriverExit.REFUSED
    written = json.loads((tmp_path / "status.json").read_text())
    assert written["state"] == "refused"
    assert written["cause"] == {"kind": "state", "lasting": True}
    assert written["message"].startswith(
        "stream device_lifecycle: the state is incompatible: the clock: was event, is processing; "
        "states have event times, and the wall clock would expire all of them at once (ways out: put it back"
    )
    assert checksums(checkpoint) == before
    assert lease.acquire().epoch == epoch + 1, "the lease was released"


def written_config(folder: Path) -> str:
    """The URI of a configuration whose status and lease are in the folder."""
    document = {**CONFIG, "status_uri": f"file://{folder}/status.json"}
    document["lease"] = {**CONFIG["lease"], "uri": f"file://{folder}/lease"}
    (folder / "config.json").write_text(json.dumps(document))
    return f"file://{folder}/config.json"


class StartedDriver:
    """STAND-IN for a driver, which needs Spark: leaves with the epoch of its lease as its code."""

    def __init__(self, job: object, config: object, lease: Lease, *rest: object, **others: object) -> None:
        self._lease = lease

    def run(self) -> int:
        return self._lease.epoch


def test_a_driver_that_was_killed_on_another_host_lets_the_next_one_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry, "Driver", StartedDriver)
    monkeypatch.setattr(
        "stateward.runtime.session.created_meanwhile",
        lambda *settings: partial(pytest.fail, "no session is needed"),
    )
    elsewhere = ProcessIdentity("other/boot", 7, 1.0)
    uri = f"file://{tmp_path}/lease"
    Lease(uri, stream="user_sessions", run_id="killed", holder=elsewhere, ttl_ms=700).acquire()
    assert run([written_config(tmp_path)]) == 2


ORPHAN = """
import sys
print("started", flush=True)
input()
from stateward.driver import run
print("code", run(sys.argv[1:]), flush=True)
"""


def test_a_driver_whose_jvm_died_while_it_started_takes_no_lease(tmp_path: Path) -> None:
    """Its parent is then process 1 or another that lives: the lease would be held for ever."""
    jvm = stand_in_jvm.start("-c", ORPHAN, written_config(tmp_path), stdin=subprocess.PIPE)
    assert jvm.stdin is not None and jvm.stdout is not None
    assert jvm.stdout.readline() == "started\n"
    jvm.kill()
    jvm.wait()
    jvm.stdin.write("\n")
    jvm.stdin.close()
    assert jvm.stdout.read().splitlines()[-1] == f"code {DriverExit.FAILED}"
    assert not (tmp_path / "lease").exists()
