"""The query itself on a real broker: bad input, late events, batches that run again."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.user_sessions.open_sessions import open_sessions
from stateward.runtime.checkpoint.checkpoint import consumed
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch
from tests.support.spark.running_query import Running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def launch(tmp_path: Path, broker: RunningBroker, request: pytest.FixtureRequest) -> Launch:
    launch = Launch(tmp_path, broker, f"events-{request.node.name[:40].replace('[', '-')}", partitions=2)
    broker.create_topic(launch.topic, 2)
    return launch


def event(event_id: str, at: datetime = NOW, **changes: Any) -> dict[str, Any]:
    fields = {
        "event_id": event_id,
        "user_id": "u",
        "event_type": "view",
        "event_time": at.isoformat().replace("+00:00", "Z"),
        **changes,
    }
    return {name: value for name, value in fields.items() if value is not ...}


def as_record(value: Any) -> tuple[bytes | None, bytes | None]:
    return b"k", value if value is None or isinstance(value, bytes) else json.dumps(value).encode()


BAD: dict[str, list[Any]] = {
    "empty_record": [None],
    "record_too_large": [event("big", padding="x" * 5_000_000)],
    "not_utf8": [b'{"event_id": "\xff\xfe"}', b"\x80"],
    "malformed_json": [
        b"",
        b"{",
        b"not json",
        json.dumps(event("x")).encode() + b" trailing",
        json.dumps(event("x")).encode() + b"] trailing",
        b'{"event_id": NaN}',
    ],
    "not_an_object": [[event("x")], "text", 1, b"null"],
    "missing_field": [
        event("x", user_id=...),
        event("x", user_id=None),
        {},
        event("x", event_time=None),
        b'{"event_id": "a", "event_id": "b"}',  # of a key that is there twice the last counts
    ],
    "wrong_type": [
        event("x", user_id=7),
        event("x", event_type=["view"]),
        event("x", is_last="true"),
        event("x", is_last=1),
        event("x", timeout_s="60"),
        event("x", event_time=1_700_000_000),
        {**event("x"), "event_id": 17},
    ],
    "empty_field": [event("x", user_id=""), event("x", user_id="  "), event("")],
    "value_out_of_range": [
        event("x", timeout_s=0),
        event("x", timeout_s=-1),
        event("x", timeout_s=86_401),
        event("x", user_id="u" * 1025),
    ],
    "event_time_unparsable": [
        event("x", event_time="2024-01-01T00:00:00"),
        event("x", event_time="yesterday"),
        event("x", event_time="2024-02-30T00:00:00Z"),
        event("x", event_time="10:00"),
    ],
    "event_time_too_old": [event("x", event_time="1970-01-01T00:00:00Z")],
    "event_time_in_future": [
        event("x", event_time="2100-01-01T00:00:00Z"),
        event("x", datetime.now(UTC) + timedelta(hours=2)),
    ],
}
GOOD = [
    event("plain"),
    event("zone", NOW, event_time=NOW.isoformat().replace("+00:00", "+0000")),
    event("unknown-field", NOW, surprise={"deep": [1, {"x": None}]}),
    event("nulls", NOW, is_last=None, timeout_s=None),
    event("text", NOW, event_type='ümläut 🎈 \u0000 "quoted"'),
    event("fraction", NOW, timeout_s=1800.5),
]


def test_every_kind_of_bad_input_ends_where_it_belongs(launch: Launch, spark: SparkSession) -> None:
    sent = launch.send(as_record(record) for records in BAD.values() for record in records)
    sent += launch.send(as_record(record) for record in [*GOOD, event("plain")])
    running = Running(launch, spark)
    try:
        running.settle()
        # The watermark is now two minutes before NOW, for all that 1970 and 2100 were there.
        sent += launch.send([as_record(event("late", NOW - timedelta(minutes=3), user_id="other"))])
        running.settle()
        sent += launch.send([as_record(event("on-time", NOW - timedelta(minutes=1)))])
        running.settle()
        open_now = {row["user_id"]: row for row in open_sessions(spark, launch.uri("checkpoint")).collect()}
    finally:
        running.stop()

    dead = launch.rows("dead_letters")
    assert Counter(row["reason"] for row in dead) == {reason: len(records) for reason, records in BAD.items()}
    for row in dead:
        assert row["detail"], row
        assert (row["stream"], row["topic"], row["key"]) == ("user_sessions", launch.topic, b"k")
    assert max(len(row["value"] or b"") for row in dead) > 5_000_000
    late = launch.rows("late_events")
    assert [(row["event_id"], row["key"]) for row in late] == [("late", "other")]
    assert json.loads(late[0]["value"])["event_id"] == "late"
    assert late[0]["watermark"] == NOW - timedelta(minutes=2)
    assert running.stream.ledger is not None
    totals = running.stream.ledger.totals(10**9)
    assert totals["duplicates"] == 1
    assert (totals["accepted"], totals["dead"], totals["late"]) == (len(GOOD) + 1, len(dead), 1)
    committed = running.checkpoint.planned(running.checkpoint.last_committed())
    assert committed is not None
    assert consumed(running.checkpoint.initial_offsets(), committed.offsets, launch.topic) == sent
    assert sum(totals[name] for name in ("accepted", "dead", "late", "duplicates")) == sent
    assert launch.rows("sessions") == []
    assert set(open_now) == {"u"}
    assert open_now["u"]["held_events"] == len(GOOD) + 1


def test_a_batch_that_runs_again_writes_nothing_twice(launch: Launch, spark: SparkSession) -> None:
    launch.send(as_record(event(str(n), NOW - timedelta(days=1, seconds=n), is_last=True)) for n in range(5))
    launch.send([as_record(event("now", NOW)), as_record(b"junk")])
    running = Running(launch, spark)
    try:
        running.settle()
    finally:
        running.stop()
    before = {table: launch.rows(table) for table in ("sessions", "dead_letters", "batch_counts")}
    assert len(before["sessions"]) == 5

    # Back to where only the first batch was planned and nothing committed, though everything had been
    # written.
    for batch in range(running.checkpoint.last_planned() + 1):
        for folder in ("commits", "offsets") if batch else ("commits",):
            for name in (str(batch), f".{batch}.crc"):
                (launch.folder / "checkpoint" / folder / name).unlink(missing_ok=True)
    assert running.checkpoint.last_planned() == 0
    assert not running.checkpoint.is_clean()
    again = Running(launch, spark, "run-2")
    try:
        again.settle()
    finally:
        again.stop()

    assert again.checkpoint.is_clean()
    assert {table: launch.rows(table) for table in before} == before
