"""Drivers on a checkpoint of different code: the descriptor they write, and when they refuse it."""

from __future__ import annotations

import hashlib
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch, real_events
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.spark


@pytest.fixture
def launch(tmp_path: Path, broker: RunningBroker) -> Iterator[Launch]:
    made = Launch(tmp_path, broker, "state-verdict")
    yield made
    made.kill_all()


def checksums(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@ci_full
def test_a_driver_with_other_buckets_refuses_and_the_right_one_continues(launch: Launch) -> None:
    launch.broker.create_topic(launch.topic, 3)
    launch.send(real_events()[:300])
    first = launch.start("run-1")
    launch.wait_for("read", 240, run_id="run-1", delivered=300)
    first.send_signal(signal.SIGTERM)
    assert first.wait(PATIENCE_S) == 0
    checkpoint = Path(launch.checkpoint.removeprefix("file://"))
    described = json.loads((checkpoint / "stateward.json").read_text())
    assert (described["stream"], described["state"]["buckets"]) == ("user_sessions", launch.buckets)
    before = checksums(checkpoint)

    second = launch.start("run-2", state_buckets=8)
    assert second.wait(PATIENCE_S) == 3
    status = launch.status()
    assert (status["state"], status["run_id"]) == ("refused", "run-2")
    assert "the number of state buckets: was 16, is 8" in status["message"]
    assert checksums(checkpoint) == before, "a refused driver writes nothing"

    launch.send(real_events()[300:400])
    third = launch.start("run-3", allowed_lateness_ms=60_000)
    launch.wait_for("read", 240, run_id="run-3", delivered=400)
    third.send_signal(signal.SIGTERM)
    assert third.wait(PATIENCE_S) == 0
    described = json.loads((checkpoint / "stateward.json").read_text())
    assert described["allowed_lateness_ms"] == 60_000
    (operator,) = described["spark"]["operators"]
    assert operator["variables"].keys() == {"head", "log"}
    wait_until(lambda: launch.status()["state"] == "stopped", PATIENCE_S, lambda: f"{launch.status()}")
