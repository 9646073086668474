"""`action_counts` by the wall clock, on a real broker and with a real driver: counted, timed out, killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from stateward.runtime.checkpoint.checkpoint import Checkpoint
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import ACTION_COUNTS, Launch
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.spark

IDLE = timedelta(seconds=6)
TRIGGER_MS = 2000
SETTINGS: dict[str, Any] = {
    "clock": "processing",
    # Ids are remembered for less than a user may be idle, so that the final row leaves nothing behind.
    "allowed_lateness_ms": 5000,
    "trigger_interval_ms": TRIGGER_MS,
    "logic": {"idle_ms": int(IDLE.total_seconds() * 1000), "max_held_events": 100},
}


@pytest.fixture
def launch(tmp_path: Path, broker: RunningBroker, request: pytest.FixtureRequest) -> Iterator[Launch]:
    made = Launch(tmp_path, broker, f"actions-{request.node.name[5:30]}", stream=ACTION_COUNTS)
    broker.create_topic(made.topic, made.partitions)
    yield made
    made.kill_all()


def action(event_id: str, user: str, kind: str, at: str = "2020-01-01T00:00:00Z") -> tuple[bytes, bytes]:
    fields = {"event_id": event_id, "user_id": user, "event_type": kind, "event_time": at}
    return user.encode(), json.dumps(fields).encode()


@ci_full
def test_counts_follow_arrival_and_end_by_the_wall_clock_on_a_quiet_topic(launch: Launch) -> None:
    launch.start("run-1", **SETTINGS)
    # The first batch of a cold driver takes longer than a user may be idle here.
    launch.send([action("w", "warm", "view")])
    launch.wait_for("the driver is warm", delivered=1)
    sent_at = datetime.now(UTC)
    launch.send(
        [
            # Neither ids nor event times are in the order of arrival.
            action("z", "anna", "view", "2020-01-01T00:00:09Z"),
            action("y", "anna", "search", "2020-01-01T00:00:05Z"),
            action("b", "ben", "view", "2024-01-01T00:00:00Z"),
            action("y", "anna", "search", "2020-01-01T00:00:05Z"),
            action("x", "anna", "buy", "2020-01-01T00:00:01Z"),
            action("n", "ghost", "view", "no time"),
        ],
        partition=0,
    )
    launch.wait_for("all is counted", delivered=7, accepted=5, duplicates=1, dead=1, late=0)
    wait_until(
        lambda: [row["is_final"] for row in launch.rows("action_counts")] == [True] * 3,
        PATIENCE_S,
        lambda: f"every count has ended: {launch.rows('action_counts')} {launch.status()}",
    )

    rows = {row["user_id"]: row for row in launch.rows("action_counts")}
    facts = ("action_count", "last_action", "last_event_id")
    assert {user: tuple(row[name] for name in facts) for user, row in rows.items()} == {
        "anna": (3, "TIMEOUT", "x"),
        "ben": (1, "TIMEOUT", "b"),
        "warm": (1, "TIMEOUT", "w"),
    }
    for row in (rows["anna"], rows["ben"]):
        assert sent_at <= row["first_action_at"] <= row["last_action_at"] < row["updated_at"]
        assert row["updated_at"] - row["last_action_at"] == IDLE
    wait_until(
        lambda: launch.status()["state_rows"] == 0, PATIENCE_S, lambda: f"no state is left: {launch.status()}"
    )
    # Counted and not timed: of two triggers the first reads the tick, and the next acts on it.
    last = max(row["batch_id"] for row in launch.rows("batch_counts") if row["rows_out"])
    planned = [_planned_at(launch, batch) for batch in range(last + 1)]
    deadline = rows["anna"]["updated_at"]
    assert 1 <= sum(at >= deadline for at in planned) <= 2, (deadline, planned)


@ci_full
def test_killed_in_mid_batch_the_rows_have_the_time_of_its_plan(launch: Launch) -> None:
    checkpoint = Checkpoint(launch.checkpoint)
    users = [f"user-{number}" for number in range(200)]
    for round_ in ("view", "search", "buy"):
        launch.send((action(f"{round_}-{user}", user, round_) for user in users), partition=1)
    first = launch.start("run-1", **SETTINGS)
    wait_until(
        lambda: checkpoint.last_planned() == 0, PATIENCE_S, lambda: f"a batch runs: {launch.status()}", 0.01
    )
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    plan = checkpoint.planned(0)
    assert checkpoint.last_committed() == -1, "killed too late to show anything"
    assert plan is not None

    launch.start("run-2", **SETTINGS)
    launch.wait_for("the batch has run again", run_id="run-2", delivered=600, accepted=600)
    again = checkpoint.planned(0)

    assert again == plan
    rows = launch.rows("action_counts")
    assert sorted(row["user_id"] for row in rows) == sorted(users)
    read_at = datetime.fromtimestamp(plan.now_ms / 1000, UTC)
    assert {(row["action_count"], row["last_event_id"].split("-")[0]) for row in rows} == {(3, "buy")}
    assert {(row["first_action_at"], row["last_action_at"]) for row in rows} == {(read_at, read_at)}


def _planned_at(launch: Launch, batch: int) -> datetime:
    plan = Checkpoint(launch.checkpoint).planned(batch)
    assert plan is not None
    return datetime.fromtimestamp(plan.now_ms / 1000, UTC)
