"""Generated traffic of every stream, reconciled: no difference, and of one row altered by hand that one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.spark.proof.test_traffic import plan_for
from tests.support.full import only_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import (
    DEVICE_LIFECYCLE,
    EVENT_WINDOWS,
    FRAUD_WATCH,
    INTRUSION_PATTERNS,
    PAYMENT_AUTH_JOIN,
    SESSION_WINDOWS,
    USER_ACTIVITY,
    USER_SESSIONS,
    Launch,
    Stream,
)
from tests.support.spark.recomputing import alter, differences, explained_by, land, recomputed, request
from tests.support.spark.running_query import running
from tests.support.streams.catalogue import QUIET
from tests.support.streams.traced import Traced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BEGIN = datetime(2000, 1, 1, tzinfo=UTC)


class Altered(NamedTuple):
    """Which table of a stream, by which column a row of it is known, and which number in it is altered."""

    stream: Stream
    table: str
    identity: str
    column: str


ALTERED = (
    Altered(USER_SESSIONS, "sessions", "session_id", "event_count"),
    Altered(USER_ACTIVITY, "activity_sessions", "session_id", "session_count"),
    Altered(FRAUD_WATCH, "fraud_summaries", "summary_id", "transaction_count"),
    Altered(DEVICE_LIFECYCLE, "device_status", "device_id", "reading_count"),
    Altered(INTRUSION_PATTERNS, "intrusion_alerts", "alert_id", "duration_ms"),
    Altered(EVENT_WINDOWS, "event_windows_sliding", "window_id", "event_count"),
    Altered(PAYMENT_AUTH_JOIN, "payment_authentications", "payment_id", "amount"),
    Altered(SESSION_WINDOWS, "session_windows", "session_id", "event_count"),
)


@only_full
@pytest.mark.parametrize("wrong", ALTERED, ids=lambda wrong: wrong.stream.name)
def test_seeded_traffic_is_equal_and_one_altered_row_is_found(
    wrong: Altered, tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    stream, table, identity, column = wrong
    launch = Launch(tmp_path, broker, f"reconcile-{stream.name}", stream=stream)
    broker.create_topic(launch.topic, launch.partitions)
    traced = Traced(launch, plan_for(stream))
    with running(launch, spark) as query:
        for part in traced.parts(3):
            traced.send(part)
            query.settle()
        end = traced.end() + QUIET
        query.tick(end)
        traced.send_late()
        query.settle()
        query.drain()
    land(launch, spark)

    report = recomputed(spark, request(launch, BEGIN, end))
    assert (report["equal"], report["exact"]) == (True, True), report
    for entry in report["tables"]:
        assert 0 < entry["rows"] == entry["compared"] == len(launch.rows(entry["table"]))

    rows = [row for row in launch.rows(table) if row[column] is not None]
    altered = rows[len(rows) // 2][identity]
    alter(launch, table, f"{identity} = '{altered}'", **{column: f"{column} + 1"})
    report = recomputed(spark, request(launch, BEGIN, end))
    assert {entry["table"]: entry["different"] for entry in report["tables"] if not entry["equal"]} == {
        table: 1
    }
    live, made = differences(launch, table)
    for row in (live, made):
        assert (row[identity], row["difference"], row["differs_in"]) == (altered, "other values", [column])
        assert row["sure"], "the stream has passed it"
        assert explained_by(launch, row)
        assert row["events_in_all"] >= len(row["events"])
