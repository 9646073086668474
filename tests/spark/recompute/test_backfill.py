"""Tables recomputed from raw events are those that the stream has written, and one altered row is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable, write_deltalake

from spark_jobs.raw_events.declaration import RAW_EVENTS as RAW
from spark_jobs.user_sessions.declaration import SESSIONS
from spark_jobs.user_sessions.logic import SessionLogic
from spark_jobs.user_sessions.model import SessionEvent
from stateward.platform.parts.kafka import Broker
from stateward.quality.privacy.masking import mask
from stateward.recompute.request import BackfillError
from stateward.runtime.api.key_logic import replay_oracle
from stateward.runtime.api.tables import LATE_EVENTS, Table
from stateward.runtime.sink.output_rows import decode_rows, encode_rows
from tests.support.full import ci_full, only_full
from tests.support.kafka.broker import RunningBroker
from tests.support.kafka.set_clock import SetClock
from tests.support.spark.launches import CHECKOUT, MINUTE_MS, Launch, real_events
from tests.support.spark.recomputing import (
    alter,
    differences,
    explained_by,
    land,
    milliseconds,
    recomputed,
    request,
)
from tests.support.spark.running_query import running
from tests.support.streams.catalogue import LIVES, QUIET, START, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FIRST = datetime(2015, 5, 17, 10, tzinfo=UTC)
BEFORE, AFTER = datetime(2015, 5, 1, tzinfo=UTC), datetime(2015, 6, 1, tzinfo=UTC)
DAY_MS = 86_400_000
SECRET = "a secret of a test"
LATE_EVENT = {
    "event_id": "late",
    "user_id": "u-late",
    "event_type": "view",
    "event_time": "2015-05-18T10:00:00Z",
}


@ci_full
def test_sessions_of_real_events(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATEWARD_MASK_SECRET", SECRET)
    launch = Launch(tmp_path, broker, "user_events")
    broker.create_topic(launch.topic, launch.partitions)
    with running(launch, spark) as query:
        launch.send([*real_events(), (b"k", b"junk")])
        query.settle()
        query.tick(AFTER)
        launch.send([(b"k", json.dumps(LATE_EVENT).encode())])
        query.settle()
        counted = query.counted()
        query.drain()
    expected = {"accepted": 10_000, "late": 1, "dead": 1, "rows_out": 3052}
    assert {name: counted[name] for name in expected} == expected
    launch.end_replay(AFTER.isoformat())
    land(launch, spark)

    begin, end = FIRST + timedelta(days=1), FIRST + timedelta(days=2, hours=3)
    report = recomputed(spark, request(launch, begin, end))
    [sessions] = report["tables"]
    assert (report["equal"], report["exact"]) == (True, True)
    closed = DeltaTable(sessions["uri"]).to_pyarrow_table()["closed_at"].to_pylist()
    assert (
        len(closed)
        == sessions["rows"]
        == len([row for row in launch.rows("sessions") if begin <= row["closed_at"] < end])
    )
    assert 0 < len(closed) < 3052

    report = recomputed(spark, request(launch, begin, end, with_late=True))
    [sessions] = report["tables"]
    assert (report["equal"], sessions["only_live"], sessions["only_backfill"]) == (False, 0, 1)
    assert sessions["shown"][0]["user_id"] == mask(SECRET, "u-late")
    assert sessions["kinds"] == {"missing in the table": 1}
    [missing] = differences(launch, "sessions")
    assert (explained_by(launch, missing), missing["events_in_all"]) == (["late"], 1)

    altered = launch.rows("sessions")[7]["session_id"]
    alter(launch, "sessions", f"session_id = '{altered}'", event_count="event_count + 1")
    before = DeltaTable(launch.uri("tables", "sessions")).version()
    report = recomputed(spark, request(launch, BEFORE, AFTER))
    [sessions] = report["tables"]
    assert (report["equal"], sessions["only_live"], sessions["only_backfill"]) == (False, 1, 1)
    assert [(row["only_in"], row["session_id"]) for row in sessions["shown"]] == [
        ("live", mask(SECRET, altered)),
        ("backfill", mask(SECRET, altered)),
    ]
    assert altered not in json.dumps(report)
    assert (sessions["compared"], sessions["different"], sessions["sure"]) == (3052, 1, 1)
    live, made = differences(launch, "sessions")
    assert (live["difference"], live["differs_in"]) == ("other values", ["event_count"])
    assert live["event_count"] == made["event_count"] + 1 == made["events_in_all"] + 1
    assert explained_by(launch, live) == explained_by(launch, made) == events_of(made)
    assert report["counts"].items() >= {"records": 10_004, "events": 10_000, "dead": 1, "ticks": 3}.items()
    assert DeltaTable(launch.uri("tables", "sessions")).version() == before, "the live table was touched"


@ci_full
def test_what_was_too_far_ahead_is_left_out_by_its_offset(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    """By the time of the backfill nothing of it is ahead any more."""
    launch = Launch(tmp_path, broker, "too-far-ahead")
    broker.create_topic(launch.topic, launch.partitions)
    clock = SetClock("", file=str(tmp_path / "now"))
    clock.set(START)
    ahead = START + timedelta(hours=2)
    with running(launch, spark, time=clock) as query:
        for event_id, at in (("in time", START), ("ahead", ahead)):
            event = {**LATE_EVENT, "event_id": event_id, "user_id": event_id, "event_time": at.isoformat()}
            launch.send([(b"k", json.dumps(event).encode())])
        query.settle()
        query.tick(START + timedelta(days=1))
        counted = query.counted()
        query.drain()
    assert (counted["accepted"], counted["dead"], counted["rows_out"]) == (1, 1, 1)
    land(launch, spark)

    report = recomputed(spark, request(launch, START - timedelta(days=1), START + timedelta(days=1)))
    [sessions] = report["tables"]
    assert (report["equal"], sessions["rows"]) == (True, 1)


def events_of(session: dict[str, Any]) -> list[str]:
    """The ids of the real events that are a session."""
    found = [json.loads(value) for _, value in real_events()]
    mine = [event for event in found if event["user_id"] == session["user_id"]]
    at = {event["event_id"]: datetime.fromisoformat(event["event_time"]) for event in mine}
    inside = [name for name in at if session["started_at"] <= at[name] <= session["ended_at"]]
    return sorted(inside, key=lambda name: (at[name], name))


def command(launch: Launch, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`stateward backfill` with the tables of a launch."""
    variables = {
        **os.environ,
        "PYTHONPATH": str(CHECKOUT),
        "STATEWARD_HOME": str(launch.folder / "home"),
        "STATEWARD_DATA": launch.uri(),
        "STATEWARD_JARS": str(CHECKOUT / "jars"),
        "COLUMNS": "200",
    }
    program = "from stateward.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, "backfill", *arguments, "--master", "local[2]"],
        env=variables,
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


@ci_full
def test_the_command_says_what_is_different(tmp_path: Path) -> None:
    """Without a broker: the events are landed, and the live table made, by hand."""
    launch = Launch(tmp_path, RunningBroker(Broker(tmp_path, tmp_path, "127.0.0.1", 1, 2)), "user_events")
    events = real_events()[:2000]
    for table in (RAW, SESSIONS, LATE_EVENTS):
        table.create(launch.uri("tables", table.name))
    at = milliseconds(AFTER)
    records = [(at, at // DAY_MS, key, value, None, None, None) for key, value in events]
    append(launch, RAW, [("user_events", 0, offset, *record) for offset, record in enumerate(records)])
    by_user: dict[str, list[SessionEvent]] = defaultdict(list)
    for _, value in events:
        found = json.loads(value)
        at_ms = milliseconds(datetime.fromisoformat(found["event_time"]))
        by_user[found["user_id"]].append(SessionEvent(found["event_id"], at_ms, found["event_type"]))
    logic = SessionLogic(30 * MINUTE_MS)
    rows: list[Any] = [row for user, mine in by_user.items() for row in replay_oracle(logic, user, mine)]
    made_up = rows[3]._replace(session_id="made up", user_id="made up")
    append(launch, SESSIONS, [rows[0]._replace(event_count=99), *rows[2:], rows[2], made_up])

    said = command(launch, "user_sessions", "--from", "2015-05-01", "--to", "2015-06-01", "--compare")

    assert said.returncode == 1, said.stdout + said.stderr
    assert "different" in said.stdout.splitlines()
    assert "Note: The stream has got to nowhere yet" in said.stdout
    folder = tmp_path / "home" / "backfill" / "user_sessions"
    report = json.loads((folder / "report.json").read_text())
    assert (report["exact"], report["tables"][0]["rows"]) == (True, len(rows))
    found = DeltaTable(f"file://{folder}/differences/sessions").to_pyarrow_table().to_pylist()
    assert {(row["only_in"], row["session_id"], row["difference"]) for row in found} == {
        ("backfill", rows[0].session_id, "other values"),
        ("live", rows[0].session_id, "other values"),
        ("backfill", rows[1].session_id, "missing in the table"),
        ("live", rows[2].session_id, "more than once in the table"),
        ("live", "made up", "not in the events"),
    }
    assert report["tables"][0]["different"] == 4
    assert report["tables"][0]["sure"] == 0, "the stream has got to nowhere yet"
    counts = {row.session_id: row.event_count for row in rows[:3]}
    assert {row["session_id"]: row["events_in_all"] for row in found} == {**counts, "made up": 0}


def append(launch: Launch, table: Table, rows: list[Any]) -> None:
    write_deltalake(launch.uri("tables", table.name), decode_rows(encode_rows(table, rows)), mode="append")


@only_full
def test_devices_with_a_current_row_each_and_raw_events_that_are_cut_off(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    [life] = [one for one in LIVES if one.stream.name == "device_lifecycle"]
    launch = Launch(tmp_path, broker, "backfill-devices", stream=life.stream)
    sent = send(life, seed=5, keys=120, events_per_key=12)
    broker.create_topic(launch.topic, launch.partitions)
    with running(launch, spark) as query:
        launch.send(sent.records)
        query.settle()
        query.tick(sent.last + QUIET)
        assert query.counted()["accepted"] == len(sent.events)
        query.drain()
    with pytest.raises(BackfillError, match="expected the Delta table raw_events"):
        recomputed(spark, request(launch, START, sent.last))
    land(launch, spark)

    report = recomputed(spark, request(launch, START, sent.last + QUIET))
    assert report["equal"], report
    assert {entry["table"]: entry["rows"] for entry in report["tables"]} == {
        table: len(launch.rows(table)) for table in launch.stream.tables
    }

    begin, end = START + timedelta(days=20), START + timedelta(days=60)
    report = recomputed(spark, request(launch, begin, end))
    assert report["equal"], report
    alerts, status = report["tables"]
    assert 0 < alerts["rows"] < len(launch.rows("device_alerts"))
    assert 0 < status["rows"] < len(launch.rows("device_status"))
    [note] = report["notes"]
    assert note.startswith("device_status holds the last row of each device_id as of")

    DeltaTable(launch.uri("tables", "raw_events")).delete("partition = 1 AND offset < 5")
    report = recomputed(spark, request(launch, begin, end, compare=False))
    assert (report["equal"], report["exact"]) == (None, False)
    assert report["notes"][0].startswith("raw_events does not reach back far enough for an exact answer")
