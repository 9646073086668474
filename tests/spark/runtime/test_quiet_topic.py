"""An idle topic: with ticks alone every stream's timeouts fire within two triggers.

Counted in batches and under a clock of the test's own: one trigger reads the tick, and the next acts on it.
`test_action_counts_stream.py` has it with a driver and by the wall clock.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stateward.project.project import Project
from stateward.project.spec import load_specs
from stateward.runtime.api.stream_job import StreamJob
from stateward.testing.declarations import ABSENT, Records
from tests.support.full import only_full
from tests.support.kafka.broker import RunningBroker
from tests.support.kafka.set_clock import SetClock
from tests.support.spark.launches import (
    ACTION_COUNTS,
    DEVICE_LIFECYCLE,
    EVENT_WINDOWS,
    FRAUD_WATCH,
    INTRUSION_PATTERNS,
    PAYMENT_AUTH_JOIN,
    RAW_EVENTS,
    SESSION_WINDOWS,
    USER_ACTIVITY,
    USER_SESSIONS,
    Launch,
    Stream,
    stream,
)
from tests.support.spark.running_query import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START = datetime(2024, 3, 1, tzinfo=UTC)
TRIGGER = timedelta(milliseconds=500)
KEYS = 20


@dataclass(frozen=True)
class Silence:
    """The expected output for one event per key, and then none.

    Attributes:
        stream: The stream.
        values: What the events say beside id, key and time.
        after: From the events to the first timeout.
        table: Where the timeout puts a row for each key; empty if it only removes the state.
        row: What such a row says.
    """

    stream: Stream
    values: dict[str, Any]
    after: timedelta
    table: str = ""
    row: dict[str, Any] = field(default_factory=dict)


MINUTE = timedelta(minutes=1)
SILENCES: tuple[Silence, ...] = (
    Silence(USER_SESSIONS, {"event_type": "view"}, 30 * MINUTE, "sessions", {"close_reason": "TIMEOUT"}),
    Silence(
        USER_ACTIVITY, {"activity": "login"}, 60 * MINUTE, "activity_sessions", {"close_reason": "TIMEOUT"}
    ),
    Silence(
        FRAUD_WATCH,
        {"kind": "transaction", "amount": 1},
        30 * MINUTE,
        "fraud_summaries",
        {"close_reason": "IDLE"},
    ),
    Silence(DEVICE_LIFECYCLE, {"status": "running"}, 60 * MINUTE, "device_alerts", {"kind": "OFFLINE"}),
    Silence(ACTION_COUNTS, {"event_type": "view"}, 5 * MINUTE, "action_counts", {"last_action": "TIMEOUT"}),
    Silence(INTRUSION_PATTERNS, {"kind": "recon_scan"}, 20 * MINUTE),
)


def derived(name: str) -> Silence:
    """A stream that has no entry above, from its logic and the fields of its records."""
    records = Records(name)
    logic, key = records.job.logic(records.config), records.job.key.name
    optional: dict[str, Any] = {field.name: ABSENT for field in records.fields if not field.required}
    state, _ = logic.apply("key", None, records.event(**optional)._replace(event_ms=0))
    _, rows = logic.expire("key", state, logic.deadline(state))
    tables = [output.table.name for output in records.job.outputs if rows and type(rows[0]) is output.row]
    values = {
        field: value
        for field, value in records.defaults.items()
        if field not in ("event_id", "event_time", key, *optional)
    }
    return Silence(stream(name), values, logic.deadline(state) * MINUTE / 60_000, *tables)


SILENCES += tuple(
    derived(name)
    for name in Project.imported().streams()
    if isinstance(Project.imported().declaration(name), StreamJob)
    and name not in {silence.stream.name for silence in SILENCES}
)

# By the time of events and by the wall clock; the others are in `make full`.
FEW = (USER_SESSIONS, ACTION_COUNTS)


@pytest.mark.parametrize(
    "silence",
    [
        pytest.param(silence, marks=() if silence.stream in FEW else only_full, id=silence.stream.name)
        for silence in SILENCES
    ],
)
def test_timeouts_fire_within_two_triggers(
    silence: Silence, tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    launch = Launch(tmp_path, broker, f"quiet-{silence.stream.name}", stream=silence.stream)
    broker.create_topic(launch.topic, launch.partitions)
    launch.send(event(silence, f"key-{number}") for number in range(KEYS))
    lateness = timedelta(milliseconds=launch.document()["allowed_lateness_ms"])
    clock = SetClock("", file=str(tmp_path / "now"))
    clock.set(START + lateness)
    settings: dict[str, Any] = {
        "tick": {"mode": "wall_clock", "interval_ms": 1000},
        "trigger_interval_ms": int(TRIGGER.total_seconds() * 1000),
    }

    with running(launch, spark, time=clock, **settings) as query:
        query.settle()
        clock.set(START + silence.after + lateness - TRIGGER)
        query.settle()
        assert fired(launch, silence) == 0
        assert query.state_rows() > 0
        before = query.checkpoint.last_committed()

        clock.set(START + silence.after + lateness)
        query.settle()
        assert query.checkpoint.last_committed() <= before + 2
        assert fired(launch, silence) == (KEYS if silence.table else 0)
        assert query.counted()["accepted"] == KEYS
        if not silence.table:
            assert query.state_rows() == 0


def test_every_keyed_stream_is_here() -> None:
    native = {EVENT_WINDOWS.name, PAYMENT_AUTH_JOIN.name, SESSION_WINDOWS.name}
    keyed = {spec.stream for spec in load_specs()[0]} - native - {RAW_EVENTS.name}
    assert {silence.stream.name for silence in SILENCES} == keyed


def event(silence: Silence, key: str) -> tuple[bytes, bytes]:
    fields = {"event_id": key, silence.stream.job.key.name: key, **silence.values}
    return key.encode(), json.dumps({**fields, "event_time": START.isoformat()}).encode()


def fired(launch: Launch, silence: Silence) -> int:
    """Rows of timeouts."""
    rows = launch.rows(silence.table) if silence.table else []
    return sum(silence.row.items() <= row.items() for row in rows)
