"""Payments as `fraud_watch` reads them: seeded, out of order within the lateness, some doubled, some junk."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from typing import Any

from spark_jobs.fraud_watch.model import PaymentEvent
from tests.support.streams.catalogue import LATENESS_MS, START_MS, Record, Sent, at, iso

# After the last payment: longer than any chain of timeouts.
QUIET = timedelta(hours=60)

_HOURS = 12  # in which accounts are opened
_KINDS = (
    ("transaction",) * 16
    + ("authenticated",) * 2
    + ("review_confirmed", "case_closed", "case_closed", "refund")
)
_DEAD: tuple[bytes | dict[str, Any] | None, ...] = (
    None,
    b"junk",
    {"event_id": "no-account", "kind": "transaction", "amount": 1, "event_time": "2024-03-01T00:00:00Z"},
    {
        "event_id": "x",
        "account_id": "a",
        "kind": "transaction",
        "amount": -1,
        "event_time": "2024-03-01T00:00:00Z",
    },
    {
        "event_id": "x",
        "account_id": "a",
        "kind": "transaction",
        "amount": "1",
        "event_time": "2024-03-01T00:00:00Z",
    },
    {"event_id": "x", "account_id": "a", "kind": None, "amount": 1, "event_time": "2024-03-01T00:00:00Z"},
)


def payments(seed: int, accounts: int, *, ordered: int = 0) -> Sent:
    """Make payments of ``accounts`` accounts.

    Args:
        seed: The same seed makes the same payments.
        accounts: Accounts whose payments arrive out of order, less than the lateness.
        ordered: Further accounts, named ``ordered-...``, whose payments arrive in order and once each.
    """
    rng = random.Random(seed)
    events = [(f"account-{n}", event) for n in range(accounts) for event in _account(rng, f"{n}")]
    steady = [(f"ordered-{n}", event) for n in range(ordered) for event in _account(rng, f"o{n}")]
    copies = rng.sample(events, len(events) // 20)
    arriving: list[tuple[int, float | str, Any]] = [
        (event.event_ms + rng.randrange(LATENESS_MS), rng.random(), _record(account, event))
        for account, event in events + copies
    ]
    arriving += [(event.event_ms, event.event_id, _record(account, event)) for account, event in steady]
    dead = [_junk(value) for value in _DEAD * 3]
    arriving += [(START_MS + rng.randrange(_HOURS * 3_600_000), rng.random(), record) for record in dead]
    arriving.sort(key=lambda arrival: (arrival[0], str(arrival[1])))
    found = events + steady
    last = at(max(event.event_ms for _, event in found))
    return Sent([record for *_, record in arriving], found, len(dead), len(copies), last)


def _account(rng: random.Random, name: str) -> list[PaymentEvent]:
    """One account's events: bursts, lulls in which it is forgotten, and days of review."""
    at_ms = START_MS + rng.randrange(_HOURS * 3_600_000)
    events = []
    for number in range(rng.randint(3, 22)):
        kind = rng.choice(_KINDS) if number else "transaction"
        cents = rng.choice((rng.randrange(100, 30_000), rng.randrange(100, 30_000), rng.randrange(600_000)))
        if kind != "transaction":
            cents = 0
        events.append(PaymentEvent(f"{name}-{number}", at_ms, kind, cents * 10_000))
        at_ms += _gap(rng)
    return events


def _gap(rng: random.Random) -> int:
    shortest, longest = rng.choices(
        (
            (0, 1),
            (1, 60_000),
            (60_000, 600_000),
            (1_799_000, 1_801_000),
            (1_900_000, 9_000_000),
            (86_000_000, 87_000_000),
        ),
        (3, 60, 22, 3, 10, 2),
    )[0]
    return rng.randrange(shortest, longest)


def _record(account: str, event: PaymentEvent) -> Record:
    fields: dict[str, Any] = {
        "event_id": event.event_id,
        "account_id": account,
        "kind": event.kind,
        "event_time": iso(event.event_ms).replace("+00:00", "Z"),
    }
    if event.kind == "transaction":
        fields["amount"] = event.amount_micros // 10_000 / 100
    return account.encode(), json.dumps(fields).encode()


def _junk(value: bytes | dict[str, Any] | None) -> Record:
    return b"junk", json.dumps(value).encode() if isinstance(value, dict) else value
