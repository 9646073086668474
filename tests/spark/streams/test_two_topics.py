"""A join of two topics with a watermark each, by either policy, inner and outer: the oracle's rows.

The topic of logins is an hour behind: what it has of a time comes when the payments are an hour ahead.
"""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stateward.recompute.recompute import recompute
from tests.support.full import ci_full, only_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch
from tests.support.spark.recomputing import land, request
from tests.support.spark.running_query import COUNTS, Running, running
from tests.support.state.moves import configured
from tests.support.streams.matches import AROUND_MS, JOB, MATCHES_STREAM, Event, MatchesLaunch, all_rows
from tests.support.streams.oracle import difference, found_rows, of_tables
from tests.support.streams.short import START
from tests.support.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROUND = timedelta(minutes=30)
BEHIND = 2  # rounds
LATENESS_MS = 3000
SETTINGS: dict[str, Any] = {
    "allowed_lateness_ms": LATENESS_MS,
    "max_records_per_batch": 60,
    "trigger_interval_ms": 50,
    "state_partitions": 1,
}


class Traffic:
    """Payments and logins of a few accounts, in rounds."""

    def __init__(self, launch: MatchesLaunch) -> None:
        self._launch = launch
        self._rng = random.Random(5)
        self.events: list[Event] = []
        self.duplicates = 0

    def round(self, number: int, count: int = 25) -> None:
        """Payments of a round and logins of an earlier one, each out of order by less than the lateness."""
        self._send(self._launch, "payments", START + number * ROUND, count)
        self._send(self._launch.logins, "logins", START + (number - BEHIND) * ROUND, count)

    def logins(self, number: int, count: int = 25) -> None:
        """Logins of a round."""
        self._send(self._launch.logins, "logins", START + number * ROUND, count)

    def newest_ms(self, topic: str) -> int:
        """Time of a topic's newest event."""
        return max(event.event_ms for event in self.events if event.topic == topic)

    def junk(self) -> None:
        """Records that are none, and what is an event on the other topic only."""
        payment, login = self._record("payments", "p", "a1", START), self._record("logins", "l", "a1", START)
        self._launch.send([(b"a", b"junk"), login])
        self._launch.logins.send([(b"a", b"junk"), payment])

    def _send(self, launch: Launch, topic: str, begin: datetime, count: int) -> None:
        records = []
        for number in range(count):
            at = begin + timedelta(milliseconds=self._rng.randrange(LATENESS_MS - 500))
            # The same ids on both topics: they are different events.
            event_id, account = f"{begin:%H%M}-{number}", f"a{self._rng.randrange(5)}"
            device = f"d{number}" if topic == "logins" else None
            at_ms = int(at.timestamp() * 1000)
            self.events.append(Event(event_id, at_ms, topic, account, device))
            records.append(self._record(topic, event_id, account, at))
        records.append(records[0])
        self.duplicates += 1
        launch.send(records)

    def _record(self, topic: str, event_id: str, account: str, at: datetime) -> tuple[bytes, bytes]:
        own: dict[str, Any] = (
            {"device": f"d{event_id.rpartition('-')[2]}"} if topic == "logins" else {"cents": 5}
        )
        fields = {"event_id": event_id, "account_id": account, **own}
        return account.encode(), json.dumps({**fields, "event_time": at.isoformat()}).encode()


@ci_full
def test_by_the_smallest_watermark_nothing_is_late_through_a_restart(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    launch = made(tmp_path, broker, "min")
    traffic = Traffic(launch)
    with running(launch, spark, "left", **SETTINGS) as query:
        for number in range(2):
            traffic.round(number)
            query.settle()
        before = query.checkpoint.last_planned()
        traffic.round(2)
        wait_until(lambda: query.checkpoint.last_planned() > before, PATIENCE_S, "a plan", 0.01)
    with (
        configured(spark, {"spark.sql.streaming.numRecentProgressUpdates": "1000"}),
        running(launch, spark, "drained", **SETTINGS) as query,
    ):
        query.settle()
        traffic.junk()
        for number in range(1, 3):
            traffic.logins(number)
        query.settle()
        slowest = min(traffic.newest_ms("payments"), traffic.newest_ms("logins")) - LATENESS_MS
        # What a batch has read moves the watermark of the next one.
        wait_until(
            lambda: watermark_ms(query) == slowest,
            PATIENCE_S,
            lambda: f"the topic that is behind counts, {slowest}; found {watermark_ms(query)}",
        )
        ended(query)
        dropped = dropped_rows(query)
        counted = query.counted()

    assert {name: counted[name] for name in COUNTS} == {
        "accepted": len(traffic.events),
        "dead": 4,
        "late": 0,
        "duplicates": traffic.duplicates,
    }
    assert counted["delivered"] == len(traffic.events) + traffic.duplicates + 4
    assert dropped == 0
    expected = of_tables(launch, all_rows(traffic.events, None))
    assert {row["login_id"] is None for row in expected["matched_payments"]} == {True, False}
    assert difference(found_rows(launch), expected) == {}
    assert {row["topic"] for row in launch.rows("dead_letters")} == {launch.topic, launch.logins.topic}


@only_full
def test_a_recomputation_parses_each_topic_by_its_input(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    launch = made(tmp_path, broker, "recomputed")
    traffic = Traffic(launch)
    with running(launch, spark, **SETTINGS) as query:
        traffic.round(BEHIND)
        traffic.logins(BEHIND)
        traffic.junk()
        query.settle()
        ended(query)

    land(launch, spark)
    begin, end = START - timedelta(hours=2), START + timedelta(hours=4)
    report = recompute(spark, request(launch, begin, end, chain_ms=AROUND_MS), JOB, lambda part, what: None)
    assert (report["equal"], report["exact"]) == (True, True)


@only_full
def test_by_the_largest_watermark_what_is_behind_is_late_and_the_rest_is_joined(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    launch = made(tmp_path, broker, "max")
    traffic = Traffic(launch)
    with running(launch, spark, "max", watermark_policy="max", **SETTINGS) as query:
        for number in range(3):
            traffic.round(number)
            query.settle()
        ended(query)
        counted = query.counted()

    late = {(row["topic"], row["event_id"], row["key"]) for row in launch.rows("late_events")}
    assert {topic for topic, _, _ in late} == {launch.logins.topic}
    names = {"payments": launch.topic, "logins": launch.logins.topic}
    kept = [e for e in traffic.events if (names[e.topic], e.event_id, e.account_id) not in late]
    assert len(kept) < len(traffic.events)
    assert counted["accepted"] == len(kept)
    assert sum(counted[name] for name in COUNTS) == counted["delivered"]
    assert difference(found_rows(launch), of_tables(launch, all_rows(kept, None))) == {}


@only_full
def test_each_topic_has_its_own_lateness(tmp_path: Path, broker: RunningBroker, spark: SparkSession) -> None:
    launch = made(tmp_path, broker, "lateness")
    traffic = Traffic(launch)
    lateness = {launch.logins.topic: LATENESS_MS + 60_000}
    with running(launch, spark, lateness_by_topic_ms=lateness, **SETTINGS) as query:
        traffic.round(0)
        traffic.logins(0)
        query.settle()
        last = max(event.event_ms for event in traffic.events if event.topic == "logins")
        wait_until(
            lambda: watermark_ms(query) == last - LATENESS_MS - 60_000,
            PATIENCE_S,
            lambda: str(watermark_ms(query)),
        )


def made(folder: Path, broker: RunningBroker, name: str) -> MatchesLaunch:
    launch = MatchesLaunch(folder, broker, f"two-{name}", 1, stream=MATCHES_STREAM)
    for one in (launch, launch.logins):
        broker.create_topic(one.topic, one.partitions)
    return launch


def ended(query: Running) -> None:
    """Let the watermark pass everything, and stop."""
    query.tick(START + timedelta(days=1))
    wait_until(lambda: query.state_rows() == 0, PATIENCE_S, lambda: f"left: {query.query.lastProgress}")
    query.drain()


def watermark_ms(query: Running) -> int:
    planned = query.checkpoint.planned(query.checkpoint.last_committed())
    return planned.watermark_ms if planned else 0


def dropped_rows(query: Running) -> int:
    progresses: Any = query.query.recentProgress
    return sum(
        operator["numRowsDroppedByWatermark"]
        for progress in progresses
        for operator in progress["stateOperators"]
    )
