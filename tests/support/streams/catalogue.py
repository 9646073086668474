"""Seeded events for streams of the catalogue: out of order within the lateness, some doubled, some junk."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from spark_jobs.action_counts.model import ActionEvent
from spark_jobs.device_lifecycle.model import DeviceReading
from spark_jobs.intrusion_patterns.model import SecurityEvent
from spark_jobs.user_activity.model import ActivityEvent
from tests.support.spark.launches import (
    ACTION_COUNTS,
    DEVICE_LIFECYCLE,
    INTRUSION_PATTERNS,
    USER_ACTIVITY,
    Stream,
)

START = datetime(2024, 3, 1, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
LATENESS_MS = 120_000
# After the last event: longer than any chain of timeouts.
QUIET = timedelta(days=70)

Record = tuple[bytes | None, bytes | None]
Document = dict[str, Any]

_MINUTE_MS = 60_000


@dataclass(frozen=True)
class Life:
    """How events of one stream come about.

    Attributes:
        stream: The stream.
        key: Name of its key.
        values: Makes an event's own fields.
        event: Makes an event from its id, its time (ms) and its fields.
        pauses: Minutes between two events of a key, one of them at random.
    """

    stream: Stream
    key: str
    values: Callable[[random.Random], Document]
    event: Callable[[str, int, Document], Any]
    pauses: tuple[float, ...]


@dataclass(frozen=True)
class Sent:
    """Records in the order they are sent, and what they are.

    Attributes:
        records: Keys and values for Kafka.
        events: All that are valid, each once, with their keys where an event does not have its key.
        dead: How many records are not valid.
        duplicates: How many records repeat another.
        last: The largest event time.
    """

    records: list[Record]
    events: list[Any]
    dead: int
    duplicates: int
    last: datetime


def _activity(rng: random.Random) -> Document:
    return {"activity": rng.choice(("login",) * 5 + ("logout",) * 5 + ("lunch",))}


def _action(rng: random.Random) -> Document:
    return {"event_type": rng.choice(("view", "search", "buy"))}


def _security(rng: random.Random) -> Document:
    return {"kind": rng.choice(("recon_scan", "auth_failure", "privilege_escalation", "port_open"))}


def _reading(rng: random.Random) -> Document:
    status = rng.choice(("running",) * 8 + ("idle",) * 4 + ("error",) * 3 + ("retired",))
    return {"status": status, "error_code": f"E{rng.randrange(40)}" if status == "error" else None}


LIVES = (
    Life(
        USER_ACTIVITY,
        "user_id",
        _activity,
        lambda event_id, at, values: ActivityEvent(event_id, at, values["activity"]),
        (1, 5, 20, 59.9, 60, 61, 44_000),
    ),
    Life(
        INTRUSION_PATTERNS,
        "source_ip",
        _security,
        lambda event_id, at, values: SecurityEvent(event_id, at, values["kind"]),
        (0, 0.5, 2, 6, 10, 20),
    ),
    Life(
        DEVICE_LIFECYCLE,
        "device_id",
        _reading,
        lambda event_id, at, values: DeviceReading(event_id, at, values["status"], values["error_code"]),
        (0, 1, 10, 30, 60, 61, 300, 50_000),
    ),
    # By event time here: what it computes can be compared with an oracle then.
    Life(
        ACTION_COUNTS,
        "user_id",
        _action,
        lambda event_id, at, values: ActionEvent(event_id, at, values["event_type"]),
        (0, 0.5, 1, 4, 5, 6),
    ),
)


def at(event_ms: int) -> datetime:
    return START + timedelta(milliseconds=event_ms - START_MS)


def iso(event_ms: int) -> str:
    return at(event_ms).isoformat(timespec="milliseconds")


def send(life: Life, seed: int, keys: int, events_per_key: int) -> Sent:
    """Make the records of a stream: the same ones for the same seed."""
    rng = random.Random(seed)
    found: list[tuple[str, Any, Document]] = []
    for number in range(keys):
        at_ms = START_MS + rng.randrange(12 * 60) * _MINUTE_MS
        for event in range(rng.randrange(1, 2 * events_per_key)):
            at_ms += int(rng.choice(life.pauses) * _MINUTE_MS) + rng.choice((0, 0, 1, 999))
            values = life.values(rng)
            found.append((f"{life.key}-{number}", life.event(f"e{number}-{event}", at_ms, values), values))
    copies = rng.sample(found, len(found) // 20)
    arriving = sorted(
        (event.event_ms + rng.randrange(LATENESS_MS), rng.random(), _record(life, key, event, values))
        for key, event, values in found + copies
    )
    records = [record for _, _, record in arriving]
    junk = [b"junk", b'{"event_id": "no-key", "event_time": "2024-03-01T00:00:00Z"}']
    for value in junk:
        records.insert(rng.randrange(len(records)), (b"junk", value))
    events = [(key, event) for key, event, _ in found]
    last = at(max(event.event_ms for _, event in events))
    return Sent(records, events, len(junk), len(copies), last)


def _record(life: Life, key: str, event: Any, values: Document) -> Record:
    document = {"event_id": event.event_id, life.key: key, **values, "event_time": iso(event.event_ms)}
    return key.encode(), json.dumps(document).encode()
