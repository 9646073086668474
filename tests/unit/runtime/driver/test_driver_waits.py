"""What a driver waits for: room on a full disk, and an answer of Kafka."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from spark_jobs.device_lifecycle.declaration import JOB
from stateward.contract.process_identity import driver_process
from stateward.contract.stream_status import ClusterRoom
from stateward.driver import CHECKS
from stateward.runtime.api.tables import BATCH_COUNTS
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.driver import driver as drivers
from stateward.runtime.driver.executors import ExecutorWatch
from stateward.runtime.driver.jvm_watchdog import ParentJvm
from stateward.runtime.driver.retries import Retries
from stateward.runtime.kafka.broker import Broker, BrokerAwayError
from stateward.runtime.lease.lease import Lease
from stateward.runtime.sink.ledger import Ledger
from stateward.runtime.telemetry.status import StatusFile
from tests.support.small_disk import small_disk
from tests.unit.state.compatibility.test_descriptor import config_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def status_at(uri: str) -> StatusFile:
    return StatusFile(uri, stream="s", run_id="r1", process=driver_process(), python_pid=1, clock=lambda: NOW)


def test_a_status_that_cannot_be_written_is_written_once_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8 * 4096) as disk:
        status = status_at(f"file://{disk}/status.json")
        status.update(state="running")
        filler = disk / "filler"
        with pytest.raises(OSError, match="No space left"), filler.open("wb", buffering=0) as file:
            while True:
                file.write(b"\0" * 4096)
        status.update(batch_id=4)
        assert json.loads((disk / "status.json").read_text())["batch_id"] is None
        filler.unlink()
        status.update()
        assert json.loads((disk / "status.json").read_text())["batch_id"] == 4
        assert [path.name for path in disk.iterdir()] == ["status.json"]


class StandInQuery:
    """A STAND-IN for Spark's query, which needs a JVM: it exists, and does nothing."""

    id = "g1"
    lastProgress = None

    def __init__(self) -> None:
        self.isActive = True

    def stop(self) -> None:
        self.isActive = False


class QueryOnAFullDisk:
    """A STAND-IN for `StreamQuery`: its first starts fail for lack of space, or for what else is given."""

    sizes = None
    failure = OSError(errno.ENOSPC, "No space left on device", "/cache/rounds")

    def __init__(self, folder: Path, failures: int, then: Any) -> None:
        self.checkpoint = Checkpoint(f"file://{folder}/checkpoint")
        self._uri = f"file://{folder}/batch_counts"
        BATCH_COUNTS.create(self._uri)
        self._starts = self._outcomes(failures)
        self._then = then

    def _outcomes(self, failures: int) -> Iterator[bool]:
        yield from [False] * failures
        yield True

    def start(self, *, once: bool = False) -> StandInQuery:
        if not next(self._starts):
            raise self.failure
        self._then()
        return StandInQuery()

    def ensure_ledger(self, generation: str) -> Ledger:
        return Ledger(self._uri, "device_lifecycle", generation)


def driver_at(folder: Path, noted: str) -> tuple[drivers.Driver, list[tuple[str, Any]]]:
    """A driver, and the states that it reports, each with one more field."""
    config = replace(config_of("device_lifecycle", folder), status_uri=f"file://{folder}/status.json")
    process = driver_process()
    lease = Lease(f"file://{folder}/l", stream="s", run_id="r1", holder=process, ttl_ms=20_000)
    written: list[tuple[str, Any]] = []

    class RecordedStatus(StatusFile):
        def update(self, **fields: Any) -> None:
            super().update(**fields)
            if "state" in fields:
                written.append((fields["state"], fields.get(noted)))

    status = RecordedStatus(
        config.status_uri, stream="s", run_id="r1", process=process, python_pid=1, clock=lambda: NOW
    )
    no_session = partial(pytest.fail, "no session is needed")
    driver = drivers.Driver(JOB, config, lease, status, CHECKS, session=no_session, jvm=ParentJvm())
    return driver, written


@pytest.mark.parametrize(("failures", "comes_back"), [(12, True), (43, False)])
def test_a_driver_waits_until_a_full_disk_has_room_again_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, comes_back: bool
) -> None:
    monkeypatch.setattr(Retries, "delay_s", 0)
    monkeypatch.setattr(Broker, "partitions", lambda self, topic: 1)
    driver, written = driver_at(tmp_path, "cause")
    query: Any = QueryOnAFullDisk(tmp_path, failures, lambda: driver._leaving.request("seen enough"))

    if comes_back:
        driver._run_queries(query)
        waits = ("waiting", {"kind": "disk_full", "lasting": False})
        assert written[:failures] == [waits] * failures
        assert written[failures] == ("running", None)
    else:
        with pytest.raises(OSError, match="No space left on device"):
            driver._run_queries(query)


def test_a_driver_waits_while_an_object_store_refuses_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Retries, "delay_s", 0)
    monkeypatch.setattr(Broker, "partitions", lambda self, topic: 1)
    driver, written = driver_at(tmp_path, "message")
    query: Any = QueryOnAFullDisk(tmp_path, 12, lambda: driver._leaving.request("seen enough"))
    # As the Delta writer says it.
    query.failure = OSError("Generic S3 error\n \x1b[31m↳\x1b[0m 503 Service Unavailable")
    driver._run_queries(query)
    said = "the storage refuses requests, trying again: OSError: Generic S3 error 503 Service Unavailable"
    assert written[:13] == [("waiting", said)] * 12 + [("running", "")]


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_driver_asks_kafka_until_it_answers_or_a_stop_is_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_stopped: bool
) -> None:
    monkeypatch.setattr(drivers, "FIRST_DELAY_S", 0)
    driver, written = driver_at(tmp_path, "message")
    answers: list[int | Exception] = [BrokerAwayError("gone"), BrokerAwayError("still gone"), 3]

    def request() -> int:
        if is_stopped and len(answers) == 2:
            driver._leaving.request("seen enough")
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert driver._when_kafka_answers(request) == (None if is_stopped else 3)
    assert written == [("waiting", "gone"), ("waiting", "still gone")]
    assert len(answers) == is_stopped


def test_a_driver_that_loses_its_executors_waits_and_goes_on_with_the_next_one(tmp_path: Path) -> None:
    driver, written = driver_at(tmp_path, "cause")
    now, executors = [NOW], [1]
    room = ClusterRoom(1, 2, 2048, 0, 1024, fits=False)
    driver._executors = ExecutorWatch(
        lambda: executors[0], lambda: room, cores=1, memory_mb=1024, clock=lambda: now[0]
    )
    driver._publish({"batch_id": 4})
    executors[0] = 0
    for _ in range(3):
        driver._publish({})
        now[0] += timedelta(seconds=6)
    waits = ("waiting", {"kind": "executors", "lasting": False})
    assert written == [("running", None), waits]
    # A batch that ends late changes nothing of it.
    driver._publish({"batch_id": 5})
    executors[0] = 1
    driver._publish({})
    assert written[2:] == [waits, ("running", None)]
    assert driver._status.document["awaits"] is None
