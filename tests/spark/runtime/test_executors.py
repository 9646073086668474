"""A driver on a standalone cluster that has no executor for it at first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stateward.contract.stream_status import status_from
from tests.support.full import only_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import FOR_SECONDS, Launch
from tests.support.spark.standalone import Standalone
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.spark

EVENT = {"event_id": "e", "user_id": "u", "event_type": "view", "event_time": "2026-01-01T00:00:00Z"}


@only_full
def test_it_waits_for_the_core_that_another_application_holds(tmp_path: Path, broker: RunningBroker) -> None:
    cluster = Standalone(tmp_path / "cluster")
    conf = {**FOR_SECONDS, **cluster.conf}
    (tmp_path / "stream").mkdir()
    launch = Launch(tmp_path / "stream", broker, "no-executor", 1, master=cluster.master, driver_conf=conf)
    try:
        cluster.start_master()
        cluster.start_worker(cores=1)
        occupier = cluster.occupy()
        driver = launch.start("run-1")

        def waits() -> dict[str, Any] | None:
            status = launch.status()
            return status if status.get("state") == "waiting" and status.get("awaits") else None

        document = wait_until(waits, PATIENCE_S, lambda: launch.log("run-1").read_text()[-3000:])
        found, _ = status_from(document)
        assert found.awaits is not None and found.awaits.room is not None, found
        room = found.awaits.room
        assert (room.workers, room.cores, room.free_cores, room.fits) == (1, 1, 0, False)
        assert room.held == {"occupier": 1}
        assert found.cause is not None and found.cause.kind == "executors"
        assert "0 of 1 cores" in found.message and "held by occupier (1)" in found.message
        assert driver.poll() is None

        cluster.kill(occupier)
        status = launch.wait_for("it has its executor", 300, state="running", awaits=None, cause=None)
        assert status["phase"] == "query"
        launch.send([(b"u", json.dumps(EVENT).encode())])
        launch.wait_for("and works", 300, delivered=1, state="running")
    finally:
        launch.kill_all()
        cluster.kill_all()
