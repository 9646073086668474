"""A driver waits for a dead one's lease, and leaves before it writes to a checkpoint that is not for it."""

from __future__ import annotations

import json
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
from stateward.runtime.lease.lease import Lease
from stateward.runtime.telemetry.status import StatusFile
from stateward.state.compatibility.start import note_start
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

    code = drivers.Driver(
        JOB, config, lease, status, CHECKS, session=partial(pytest.fail, "no session is needed")
    ).run()

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
    uri = f"file://{tmp_path}/lease"
    elsewhere = ProcessIdentity("other/boot", 7, 1.0)
    Lease(uri, stream="user_sessions", run_id="killed", holder=elsewhere, ttl_ms=700).acquire()
    document = {**CONFIG, "status_uri": f"file://{tmp_path}/status.json"}
    document["lease"] = {**CONFIG["lease"], "uri": uri}
    (tmp_path / "config.json").write_text(json.dumps(document))

    assert run([f"file://{tmp_path}/config.json"]) == 2
