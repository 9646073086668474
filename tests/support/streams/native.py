"""Seeded events for the streams on Spark's own operators: out of order within the lateness, doubled, junk."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from spark_jobs.event_windows import logic as windows
from spark_jobs.event_windows.model import UserEvent
from spark_jobs.payment_auth_join import logic as payments
from spark_jobs.payment_auth_join.model import PaymentEvent
from spark_jobs.session_windows import logic as sessions
from spark_jobs.session_windows.model import UserEvent as SessionEvent
from stateward.runtime.ingest.event_rows import to_decimal
from tests.support.spark.launches import EVENT_WINDOWS, MINUTE_MS, PAYMENT_AUTH_JOIN, SESSION_WINDOWS, Stream
from tests.support.streams.catalogue import START_MS, Document, Record, Sent, at, iso

LATENESS_MS = 10 * MINUTE_MS


@dataclass(frozen=True)
class Native:
    """How events of one stream come about, and what they come to.

    Attributes:
        stream: The stream.
        key: Name of its key.
        values: Makes an event's own fields.
        event: Makes an event from a document and its time (ms).
        oracle: All rows of all events under the settings.
    """

    stream: Stream
    key: str
    values: Callable[[random.Random], Document]
    event: Callable[[Document, int], Any]
    oracle: Callable[[list[Any], Mapping[str, int]], list[Any]]


def _user_event(rng: random.Random) -> Document:
    value = rng.choice((None, rng.randrange(-50, 50), rng.random() * 100, 0.1, -0.3, 1e11 / 3))
    return {"event_type": rng.choice(("view", "click", "Öffnen", "buy")), "value": value}


def _payment(rng: random.Random) -> Document:
    amount = rng.choice((None, 10, rng.random() * 1000))
    return {"kind": rng.choice(("transaction", "authenticated", "case_closed")), "amount": amount}


NATIVES = (
    Native(
        EVENT_WINDOWS,
        "user_id",
        _user_event,
        lambda found, at: UserEvent(
            found["event_id"], at, found["user_id"], found["event_type"], to_decimal(found["value"])
        ),
        lambda events, logic: windows.all_rows(events, size_ms=logic["size_ms"], slide_ms=logic["slide_ms"]),
    ),
    Native(
        PAYMENT_AUTH_JOIN,
        "account_id",
        _payment,
        lambda found, at: PaymentEvent(
            found["event_id"], at, found["account_id"], found["kind"], to_decimal(found["amount"])
        ),
        lambda events, logic: payments.all_rows(
            events, before_ms=logic["before_ms"], after_ms=logic["after_ms"]
        ),
    ),
    Native(
        # With a gap that is one of the distances between two events in `send`.
        replace(SESSION_WINDOWS, logic={"gap_ms": 5 * MINUTE_MS}),
        "user_id",
        lambda rng: {"event_type": rng.choice(("view", "click", "Öffnen"))},
        lambda found, at: SessionEvent(found["event_id"], at, found["user_id"], found["event_type"]),
        lambda events, logic: sessions.all_rows(events, gap_ms=logic["gap_ms"]),
    ),
)


def send(native: Native, seed: int, keys: int, events_per_key: int) -> Sent:
    """Make the records of a stream: the same ones for the same seed.

    Times are often whole minutes apart, give or take a millisecond, so that boundaries are met.
    """
    rng = random.Random(seed)
    found: list[tuple[int, Document]] = []
    for number in range(keys):
        at_ms = START_MS + rng.randrange(60) * MINUTE_MS
        for event in range(rng.randrange(1, 2 * events_per_key)):
            at_ms += rng.choice((0, 1, 2, 5, 9)) * MINUTE_MS + rng.choice((-1, 0, 0, 0, 1, 20_001))
            values = native.values(rng)
            found.append((at_ms, {"event_id": f"e{event}", native.key: f"{native.key}-{number}", **values}))
    copies = rng.sample(found, len(found) // 20)
    arriving = sorted(
        (at_ms + rng.randrange(LATENESS_MS), rng.random(), _record(native, at_ms, document))
        for at_ms, document in found + copies
    )
    records = [record for _, _, record in arriving]
    junk = [b"junk", b'{"event_id": "no-key", "event_time": "2024-03-01T00:00:00Z"}']
    for value in junk:
        records.insert(rng.randrange(len(records)), (b"junk", value))
    events = [native.event(document, at_ms) for at_ms, document in found]
    return Sent(records, events, len(junk), len(copies), at(max(event.event_ms for event in events)))


def one(native: Native, event_id: str, at_ms: int) -> tuple[Record, Any]:
    """A record of a key of its own, and its event."""
    document = {"event_id": event_id, native.key: event_id, **native.values(random.Random(1))}
    return _record(native, at_ms, document), native.event(document, at_ms)


def _record(native: Native, at_ms: int, document: Document) -> Record:
    return document[native.key].encode(), json.dumps({**document, "event_time": iso(at_ms)}).encode()
