"""Drivers as processes: killed, refused, drained, fenced, without Kafka, on an idle topic."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from stateward.contract.process_identity import ProcessIdentity
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.lease.lease import Lease, LeaseHeldError
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch, real_events
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.spark


@pytest.fixture
def launch(tmp_path: Path, broker: RunningBroker, request: pytest.FixtureRequest) -> Iterator[Launch]:
    made = Launch(tmp_path, broker, f"driver-{request.node.name[5:40]}")
    yield made
    made.kill_all()


def balance(status: dict[str, Any]) -> int:
    return int(sum(status[name] for name in ("accepted", "dead", "late", "duplicates")))


def test_killed_and_refused_and_drained_the_answer_is_exact(launch: Launch) -> None:
    """Half of the real events, kill -9, the rest: 3,052 sessions. A second driver refuses meanwhile."""
    events = real_events()
    launch.broker.create_topic(launch.topic, 3)
    launch.send(events[:5000])
    first = launch.start("run-1", max_records_per_batch=1000)
    wait_until(
        lambda: (
            0 < (launch.status().get("delivered") or 0) < 5000 or launch.status().get("delivered") == 5000
        ),
        300,
        lambda: f"the first driver consumes: {launch.status()} {launch.log('run-1').read_text()[-2000:]}",
    )
    status = launch.status()
    assert (status["state"], status["epoch"], status["pid"]) == ("running", 1, first.pid)
    assert balance(status) == status["delivered"]
    # The JVM alone needs more; Spark reports these for every batch with state.
    assert status["memory_bytes"] > 200_000_000
    measured = ("state_commit_ms", "state_removal_ms", "state_file_bytes")
    # Spark reports them at the end of the batch, just after it is counted.
    wait_until(
        lambda: all(launch.status()[name] is not None for name in measured),
        PATIENCE_S,
        lambda: f"Spark's measures are there: {launch.status()}",
    )

    second = launch.start("run-2")
    assert second.wait(PATIENCE_S) == 3
    assert f"process {first.pid} on" in launch.log("run-2").read_text()
    assert launch.status()["run_id"] == "run-1", "the refused driver must not hide the running one"

    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    launch.send(events[5000:])
    launch.end_replay("2015-05-22T00:00:00Z")
    third = launch.start("run-3")
    status = launch.wait_for("all closed", 300, run_id="run-3", delivered=10_000, rows_out=3052)
    assert (status["epoch"], status["accepted"], balance(status)) == (2, 10_000, 10_000)
    wait_until(
        lambda: launch.status()["state_rows"] == 0, PATIENCE_S, lambda: f"no state is left: {launch.status()}"
    )

    third.send_signal(signal.SIGTERM)
    assert third.wait(PATIENCE_S) == 0
    assert (launch.status()["state"], launch.status()["message"]) == ("stopped", "drained: SIGTERM")
    assert Checkpoint(launch.checkpoint).is_clean()
    lines = [json.loads(line) for line in (launch.folder / "status.history.jsonl").read_text().splitlines()]
    assert {line["run_id"] for line in lines} == {"run-1", "run-3"}, (
        "the refused driver must not write history"
    )
    assert (lines[-1]["state"], lines[-1]["delivered"]) == ("stopped", 10_000)
    sessions = launch.rows("sessions")
    assert (len(sessions), sum(row["event_count"] for row in sessions)) == (3052, 10_000)
    assert len({row["session_id"] for row in sessions}) == 3052


@ci_full
def test_a_quiet_topic_workers_killed_and_a_lease_taken_away(launch: Launch) -> None:
    """Ticks close sessions on an idle topic; a killed worker is replaced; a lost lease stops the driver."""
    short = {
        "allowed_lateness_ms": 1000,
        "logic": {"gap_ms": 2000, "max_gap_ms": 60_000, "max_held_events": 9},
    }
    driver = launch.start("run-1", **short)
    launch.wait_for("the topics are made and the query runs", state="running")
    launch.send([_event("a")])
    launch.wait_for("a session is closed without another event", delivered=1, rows_out=1)

    workers = [p for p in psutil.Process(driver.pid).children(recursive=True) if "pyspark" in _command(p)]
    # Workers that have read fold as well.
    daemons = {p.ppid() for p in workers if "worker_daemon" in _command(p)} - {driver.pid}
    assert len(daemons) == 1
    assert _priorities(driver.pid, "C1 CompilerThre", "stream executio") == [19, 0]
    for worker in [p for p in workers if "daemon" in _command(p)]:
        worker.kill()
    launch.send([_event("b")])
    status = launch.wait_for("the stream goes on", delivered=2, rows_out=2)
    assert (status["run_id"], status["epoch"], driver.poll()) == ("run-1", 1, None)

    written = {table: len(launch.rows(table)) for table in ("sessions", "batch_counts")}
    _steal(launch)
    launch.send([_event("c")])
    assert driver.wait(PATIENCE_S) == 4
    assert {table: len(launch.rows(table)) for table in written} == written
    status = launch.status()
    assert status["state"] == "failed"
    assert "epoch 2 of run thief" in status["message"]


@ci_full
def test_kafka_goes_away_and_comes_back(tmp_path: Path, new_broker: Callable[[], RunningBroker]) -> None:
    broker = new_broker()
    launch = Launch(tmp_path, broker, "away")
    try:
        driver = launch.start("run-1")
        launch.wait_for("the query runs", state="running")
        launch.send([_event("a")])
        launch.wait_for("one event", delivered=1)

        broker.stop()
        launch.wait_for("it waits", state="waiting")
        broker.start()
        launch.send([_event("b")])
        launch.wait_for("it goes on by itself", delivered=2, state="running")
        assert driver.poll() is None

        (tmp_path / "control.json").write_text(
            json.dumps({"version": 1, "desired": "stopped", "run_id": "run-1", "requested_by": "a test"})
        )
        assert driver.wait(PATIENCE_S) == 0
        assert "asked to stop by a test" in launch.status()["message"]
        assert Checkpoint(launch.checkpoint).is_clean()
    finally:
        launch.kill_all()


def test_a_missing_topic_that_may_not_be_made_is_a_clear_error(launch: Launch) -> None:
    driver = launch.start("run-1", create_topics=False)

    assert driver.wait(PATIENCE_S) == 1
    message, cause = (launch.status()[name] for name in ("message", "cause"))
    assert cause == {"kind": "topic", "lasting": True}
    assert f"expected topic '{launch.topic}'" in message
    assert "Create it" in message


def _steal(launch: Launch) -> None:
    """Acquire the lease as a driver on another host, for which it has expired."""
    thief = Lease(
        launch.uri("leases"),
        stream="user_sessions",
        run_id="thief",
        holder=ProcessIdentity("elsewhere/boot/pid:[1]", 1, 1.0),
        ttl_ms=60_000,
        clock=lambda: datetime.now(UTC) + timedelta(days=1),
        host="elsewhere/boot/pid:[1]",
    )

    def stolen() -> bool:
        try:
            return thief.acquire().epoch == 2
        except LeaseHeldError:  # a renewal was faster
            return False

    wait_until(stolen, PATIENCE_S, "the lease is taken")


def _event(event_id: str) -> tuple[bytes, bytes]:
    fields = {
        "event_id": event_id,
        "user_id": f"user-{event_id}",
        "event_type": "view",
        "event_time": datetime.now(UTC).isoformat(),
    }
    return b"k", json.dumps(fields).encode()


def _priorities(pid: int, *names: str) -> list[int]:
    found = {
        (thread / "comm").read_text().strip(): os.getpriority(os.PRIO_PROCESS, int(thread.name))
        for thread in Path(f"/proc/{pid}/task").iterdir()
    }
    return [found[name] for name in names]


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""
