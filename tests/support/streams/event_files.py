"""Event files for the end-to-end tests, made from the real page views in `data/`.

One platform serves many scenarios: each shifts the same 10,000 events to later days and other users, so that
every scenario must find exactly the known answer again, in a stream that has lived through the ones before.
"""

from __future__ import annotations

import gzip
import json
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from spark_jobs.user_sessions.logic import SessionLogic
from spark_jobs.user_sessions.model import SessionEvent
from stateward.project.settings import CHECKOUT
from stateward.runtime.api.key_logic import replay_oracle

WEB_EVENTS = CHECKOUT / "data" / "web_events.jsonl.gz"

# The contract's known answer for WEB_EVENTS with a 30 min gap: sessions, and events in them.
KNOWN_SESSIONS = 3052
KNOWN_EVENTS = 10_000

GAP_MS = 30 * 60 * 1000

Event = dict[str, Any]
Spoil = Callable[[Event, random.Random], bytes]


def web_events() -> list[Event]:
    """Return the real page views, in order of arrival."""
    with gzip.open(WEB_EVENTS, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def shifted(events: Sequence[Event], days: int, prefix: str) -> list[Event]:
    """Return the events `days` later, with users and ids of their own."""
    by = timedelta(days=days)
    return [
        event
        | {
            "event_id": f"{prefix}-{event['event_id']}",
            "user_id": f"{prefix}-{event['user_id']}",
            "event_time": (datetime.fromisoformat(event["event_time"]) + by).isoformat(),
        }
        for event in events
    ]


def session_counts(events: Sequence[Event]) -> dict[str, int]:
    """Return how many events each session of the events has, by its id."""
    by_user: dict[str, list[SessionEvent]] = defaultdict(list)
    for event in events:
        at = int(datetime.fromisoformat(event["event_time"]).timestamp() * 1000)
        by_user[event["user_id"]].append(SessionEvent(event["event_id"], at, event["event_type"]))
    closed: list[Any] = [
        row for user, found in by_user.items() for row in replay_oracle(SessionLogic(GAP_MS), user, found)
    ]
    return {row.session_id: row.event_count for row in closed}


def as_line(event: Event) -> bytes:
    """Return the event as one line of JSON, without the line's end."""
    return json.dumps(event, separators=(",", ":")).encode()


def write_lines(path: Path, lines: Sequence[bytes]) -> Path:
    """Write lines as they are, whatever bytes they hold, and return the path."""
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def _with(**fields: Any) -> Spoil:
    return lambda event, _: as_line(event | fields)


def _without(field: str) -> Spoil:
    return lambda event, _: as_line({name: value for name, value in event.items() if name != field})


# What each kind of damage does to one event. None of them may reach a session.
DAMAGE: dict[str, Spoil] = {
    "truncated JSON": lambda event, rng: as_line(event)[: rng.randint(1, 40)],
    "not JSON": lambda _event, _rng: b"GET / HTTP/1.1",
    "an array": lambda event, _: b"[" + as_line(event) + b"]",
    "a number": lambda _event, _rng: b"42",
    "user_id is a number": _with(user_id=17),
    "event_time is a number": _with(event_time=1431857103),
    "is_last is a string": _with(is_last="yes"),
    "timeout_s is negative": _with(timeout_s=-5),
    "timeout_s is a string": _with(timeout_s="60"),
    "event_time is no time": _with(event_time="yesterday"),
    "event_id is missing": _without("event_id"),
    "user_id is missing": _without("user_id"),
    "event_type is missing": _without("event_type"),
    "event_time is missing": _without("event_time"),
    "user_id is null": _with(user_id=None),
    "event_time is null": _with(event_time=None),
    "user_id is empty": _with(user_id=""),
    "not UTF-8": lambda event, _: as_line(event).replace(b"page_view", b"page\xff\xfeview"),
    "in 1970": _with(event_time="1970-01-01T00:00:00Z"),
    "in 2100": _with(event_time="2100-01-01T00:00:00Z"),
}

FIVE_MEGABYTES = 5_000_000


def mixed_with_bad(good: Sequence[Event], bad_count: int, seed: int) -> list[bytes]:
    """Return the good events in their order with `bad_count` bad records among them.

    The bad ones are every kind of `DAMAGE` in turn, duplicates (a good line once more, right after itself),
    and one record of five megabytes.
    """
    rng = random.Random(seed)
    spoils = list(DAMAGE.values())
    after: dict[int, list[bytes]] = {}
    for number in range(bad_count):
        position = rng.randrange(len(good))
        event = good[position] | {"event_id": f"bad-{seed}-{number}"}
        kind = number % (len(spoils) + 1)
        if number == 0:
            bad = as_line(event | {"page": "x" * FIVE_MEGABYTES})
        elif kind == len(spoils):
            bad = as_line(good[position])
        else:
            bad = spoils[kind](event, rng)
        after.setdefault(position, []).append(bad)
    return [
        line for position, event in enumerate(good) for line in (as_line(event), *after.get(position, ()))
    ]
