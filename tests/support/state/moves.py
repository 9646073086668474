"""Streams whose state is moved between runs: their input and the expected output."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.query.native_query import NATIVE_CONF
from tests.support.spark.launches import (
    ACTION_COUNTS,
    EVENT_WINDOWS,
    FRAUD_WATCH,
    PAYMENT_AUTH_JOIN,
    Launch,
    Stream,
)
from tests.support.streams import native, payments
from tests.support.streams.oracle import Rows, expected_rows, of_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STORE = "spark.sql.streaming.stateStore"
_ACTIONS = ("view", "search", "buy")


@dataclass(frozen=True)
class Story:
    """One stream's input and its expected rows.

    Attributes:
        records: The records to send.
        end: Time of a tick after which every state has ended.
        expected: Returns the expected rows by table.
        columns: Columns of a table that do not depend on the time of the run; all if empty.
        counts: accepted, dead, late, duplicates.
    """

    records: list[Any]
    end: Callable[[], datetime]
    expected: Callable[[Launch], dict[str, Rows]]
    counts: tuple[int, int, int, int]
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Move:
    """A stream, how Spark keeps its state, and its settings."""

    stream: Stream
    changelog: bool
    format_version: int
    story: Callable[[], Story]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def conf(self) -> dict[str, str]:
        conf = {
            f"{_STORE}.rocksdb.changelogCheckpointing.enabled": str(self.changelog).lower(),
            f"{_STORE}.checkpointFormatVersion": str(self.format_version),
        }
        return conf | (NATIVE_CONF if isinstance(self.stream.job, NativeJob) else {})

    def __str__(self) -> str:
        return f"{self.stream.name}-changelog={self.changelog}-format={self.format_version}"


@contextmanager
def configured(spark: SparkSession, conf: dict[str, str]) -> Iterator[None]:
    """Change the session's settings for a while."""
    before = {name: spark.conf.get(name, None) for name in conf}
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            if was is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, was)


def _payments() -> Story:
    made = payments.payments(seed=3, accounts=60)
    return Story(
        made.records,
        lambda: made.last + payments.QUIET,
        lambda launch: expected_rows(launch, made.events),
        (len(made.events), made.dead, 0, made.duplicates),
    )


def _actions() -> Story:
    sent = [(f"user-{n % 40}", f"e{n}", _ACTIONS[n % 3]) for n in range(240)]
    records = [(user.encode(), json.dumps(_action(user, event, kind)).encode()) for user, event, kind in sent]
    counted = Counter(user for user, _, _ in sent)
    rows = [
        {"user_id": user, "action_count": count, "last_action": "TIMEOUT", "is_final": True}
        for user, count in counted.items()
    ]
    return Story(
        records,
        lambda: datetime.now(UTC) + timedelta(hours=1),
        lambda launch: {"action_counts": rows},
        (len(records), 0, 0, 0),
        columns=tuple(rows[0]),
    )


def _action(user: str, event_id: str, kind: str) -> dict[str, str]:
    at = "2024-03-01T00:00:00Z"
    return {"event_id": event_id, "user_id": user, "event_type": kind, "event_time": at}


def _native(stream: Stream) -> Story:
    [made] = [made for made in native.NATIVES if made.stream is stream]
    sent = native.send(made, seed=1, keys=20, events_per_key=6)
    return Story(
        sent.records,
        lambda: sent.last + timedelta(days=1),
        lambda launch: of_tables(launch, made.oracle(sent.events, stream.logic)),
        (len(sent.events), sent.dead, 0, sent.duplicates),
    )


_LATE = {"allowed_lateness_ms": native.LATENESS_MS}
_SESSIONS = native.NATIVES[-1].stream

# Each stream goes up and down, with every pair of changelog and format among them.
MOVES = (
    Move(FRAUD_WATCH, True, 1, _payments),
    Move(ACTION_COUNTS, False, 2, _actions, {"clock": "processing"}),
    Move(EVENT_WINDOWS, True, 2, lambda: _native(EVENT_WINDOWS), _LATE),
    Move(_SESSIONS, False, 2, lambda: _native(_SESSIONS), _LATE),
    Move(PAYMENT_AUTH_JOIN, False, 1, lambda: _native(PAYMENT_AUTH_JOIN), _LATE),
)
FEW = (MOVES[0], MOVES[2])
"""A keyed stream and one of Spark's own, which differ in the format; the others are in `make full`."""
