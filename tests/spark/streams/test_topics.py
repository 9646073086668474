"""A keyed stream that reads two topics: the oracle's rows, and every record accounted for by its topic.

The clock of the second topic's producers is an hour behind. One watermark serves both, so the allowed
lateness covers the hour.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.user_sessions.model import SessionEvent
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import USER_SESSIONS, Launch
from tests.support.spark.recomputing import land, recomputed, request
from tests.support.spark.running_query import COUNTS, running
from tests.support.streams.oracle import difference, expected_rows, found_rows
from tests.support.streams.short import START
from tests.support.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

GAP_MS = 1000
LATENESS_MS = 3_600_000 + 2_000
APART = timedelta(hours=1)
SETTINGS: dict[str, Any] = {
    "allowed_lateness_ms": LATENESS_MS,
    "max_records_per_batch": 50,
    "trigger_interval_ms": 50,
    "state_buckets": 4,
}


class TwoTopics(Launch):
    """The topic of the launch and a second one."""

    @property
    def second(self) -> Launch:
        return Launch(self.folder, self.broker, f"{self.topic}-app", self.partitions, stream=self.stream)

    def document(self, run_id: str = "run-1", **changes: Any) -> dict[str, Any]:
        found = super().document(run_id, **{**SETTINGS, **changes})
        return {name: value for name, value in found.items() if name != "topic"} | {
            "topics": [self.topic, self.second.topic]
        }


class Traffic:
    """Events of a few users on both topics; the second one's are an hour behind."""

    def __init__(self, launch: TwoTopics) -> None:
        self._launch = launch
        self._rng = random.Random(3)
        self._sent = 0
        self.events: list[tuple[str, SessionEvent]] = []

    def send(self, begin_ms: int, count: int) -> None:
        """Events of a second, out of order by less than the lateness allows beyond the hour."""
        for behind, launch in ((timedelta(0), self._launch), (APART, self._launch.second)):
            records = []
            for _ in range(count):
                at = START - behind + timedelta(milliseconds=begin_ms + self._rng.randrange(1000))
                user, is_last = f"u{self._rng.randrange(9)}", self._rng.random() < 0.1
                records.append(self._record(f"e{self._sent}", user, at, is_last))
                self._sent += 1
            launch.send(sorted(records, key=lambda one: self._rng.random()))

    def late(self) -> None:
        """An event and a record that is none, on each topic."""
        old = START - timedelta(days=1)
        for launch in (self._launch, self._launch.second):
            launch.send([(b"u0", _value(f"late-{launch.topic}", "u0", old, False)), (b"u0", b"junk")])

    def _record(self, event_id: str, user: str, at: Any, is_last: bool) -> tuple[bytes, bytes]:
        at_ms = int(at.timestamp() * 1000)
        self.events.append((user, SessionEvent(event_id, at_ms, "view", is_last, None)))
        return user.encode(), _value(event_id, user, at, is_last)


def _value(event_id: str, user: str, at: Any, is_last: bool) -> bytes:
    fields = {"event_id": event_id, "user_id": user, "event_type": "view", "is_last": is_last}
    return json.dumps({**fields, "event_time": at.isoformat(timespec="milliseconds")}).encode()


@ci_full
def test_the_rows_are_the_oracles_through_restarts_and_a_recomputation(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    stream = replace(USER_SESSIONS, logic={**USER_SESSIONS.logic, "gap_ms": GAP_MS, "max_gap_ms": 2500})
    launch = TwoTopics(tmp_path, broker, "union", 2, stream=stream)
    for one in (launch, launch.second):
        broker.create_topic(one.topic, one.partitions)
    traffic = Traffic(launch)
    with running(launch, spark, "killed") as query:
        traffic.send(0, 60)
        query.settle()
        before = query.checkpoint.last_planned()
        traffic.send(700, 60)
        wait_until(lambda: query.checkpoint.last_planned() > before, PATIENCE_S, "a plan", 0.01)
    with running(launch, spark, "drained") as query:
        query.settle()
        traffic.send(1500, 40)
        traffic.late()
        query.settle()
        query.tick(START + timedelta(days=1))
        wait_until(lambda: query.state_rows() == 0, PATIENCE_S, lambda: f"left: {query.query.lastProgress}")
        query.drain()
        counted = query.counted()

    assert {name: counted[name] for name in COUNTS} == {
        "accepted": len(traffic.events),
        "dead": 2,
        "late": 2,
        "duplicates": 0,
    }
    assert counted["delivered"] == len(traffic.events) + 4
    assert difference(found_rows(launch), expected_rows(launch, traffic.events)) == {}
    names = {launch.topic, launch.second.topic}
    assert {row["topic"] for row in launch.rows("dead_letters")} == names
    assert {(row["topic"], row["event_id"]) for row in launch.rows("late_events")} == {
        (name, f"late-{name}") for name in names
    }

    land(launch, spark)
    begin = START - timedelta(hours=2)
    report = recomputed(spark, request(launch, begin, START + timedelta(hours=2), chain_ms=2500))
    assert (report["equal"], report["exact"], report["notes"]) == (True, True, [])
