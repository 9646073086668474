"""`fraud_watch` on a real broker: the replay of a real driver is the oracle's answer; eager emission."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stateward.quality.validation.request import Request
from stateward.quality.validation.validate import validate
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import CHECKOUT, FRAUD_WATCH, Launch
from tests.support.spark.running_query import COUNTS, running
from tests.support.streams.catalogue import Sent
from tests.support.streams.oracle import difference, expected_rows, found_rows
from tests.support.streams.payments import QUIET, payments
from tests.support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Replay:
    """A replay that a driver has read to its end, and its last status."""

    launch: Launch
    sent: Sent
    status: dict[str, Any]


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory, broker: RunningBroker) -> Iterator[Replay]:
    launch = Launch(tmp_path_factory.mktemp("fraud"), broker, "fraud-replay", stream=FRAUD_WATCH)
    sent = payments(seed=1, accounts=300)
    broker.create_topic(launch.topic, launch.partitions)
    launch.send(sent.records)
    launch.end_replay((sent.last + QUIET).isoformat())
    rows = sum(len(rows) for rows in expected_rows(launch, sent.events).values())
    try:
        # In several batches, so that the watermark moves while records wait; no state is left in the end.
        driver = launch.start("run-1", max_records_per_batch=1000)
        launch.wait_for(
            "all is read and written", 180, delivered=len(sent.records), rows_out=rows, state_rows=0
        )
        driver.send_signal(signal.SIGTERM)
        assert driver.wait(PATIENCE_S) == 0
    finally:
        launch.kill_all()
    yield Replay(launch, sent, launch.status())


@ci_full
def test_a_replay_is_the_oracles_answer_row_for_row(replay: Replay) -> None:
    expected = expected_rows(replay.launch, replay.sent.events)
    alerts = Counter((row["kind"], row["reason"]) for row in expected["fraud_alerts"])
    ends = Counter((row["state"], row["close_reason"]) for row in expected["fraud_summaries"])
    assert (len(alerts), len(ends)) == (5, 4), f"not every way through the machine is taken: {alerts}, {ends}"

    assert difference(found_rows(replay.launch), expected) == {}


@ci_full
def test_every_record_is_accounted_for(replay: Replay) -> None:
    sent, status = replay.sent, replay.status
    assert {name: status[name] for name in COUNTS} == {
        "accepted": len(sent.events),
        "dead": sent.dead,
        "late": 0,
        "duplicates": sent.duplicates,
    }
    assert status["delivered"] == len(sent.records)
    assert len(replay.launch.rows("dead_letters")) == sent.dead
    assert replay.launch.rows("late_events") == []


@ci_full
def test_the_quality_suite_holds(replay: Replay, spark: SparkSession, tmp_path: Path) -> None:
    launch = replay.launch
    request = Request(
        table_uri=launch.uri("tables", "fraud_alerts"),
        table="fraud_alerts",
        stream="fraud_watch",
        from_version=None,
        to_version=None,
        suite_file=CHECKOUT / "include" / "quality" / "fraud_alerts.yaml",
        results_uri=f"file://{tmp_path}/quality_results",
        docs_uri=f"file://{tmp_path}/docs",
        run_id="test",
    )
    outcomes = validate(lambda: spark, request)
    assert "alert_has_evidence" in {outcome.expectation.name for outcome in outcomes}
    assert {o.expectation.name: o.observed for o in outcomes if not o.success} == {}


def test_eager_emission(tmp_path: Path, broker: RunningBroker, spark: SparkSession) -> None:
    """Out of order, every account still goes its way; in order, the answer is the oracle's."""
    launch = Launch(tmp_path, broker, "fraud-eager", stream=FRAUD_WATCH)
    sent = payments(seed=2, accounts=100, ordered=100)
    broker.create_topic(launch.topic, launch.partitions)
    launch.send(sent.records)
    with running(launch, spark, emission="eager") as query:
        query.settle()
        before_quiet = len(launch.rows("fraud_alerts"))
        query.tick(sent.last + QUIET)
        counted = query.counted()
    assert sum(counted[name] for name in COUNTS) == counted["delivered"] == len(sent.records)
    assert (counted["dead"], counted["duplicates"]) == (sent.dead, sent.duplicates)

    found = found_rows(launch)
    assert 0 < len(found["fraud_alerts"]) == before_quiet, "an alert was not raised on arrival"
    # Every account begins with a transaction, so every one was watched and is summed up in the end.
    assert {row["account_id"] for row in found["fraud_summaries"]} == {account for account, _ in sent.events}
    in_order = [(account, event) for account, event in sent.events if account.startswith("ordered-")]
    steady = {
        table: [row for row in rows if row["account_id"].startswith("ordered-")]
        for table, rows in found.items()
    }
    assert difference(steady, expected_rows(launch, in_order)) == {}
