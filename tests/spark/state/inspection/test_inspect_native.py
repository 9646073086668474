"""`inspect` and `explain` on the state of Spark's own operators: windows, sessions, ids, and a join."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stateward.state.pages.page import explanation_page, inspection_page
from stateward.state.reader.stores import SESSION_WINDOW
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import EVENT_WINDOWS, PAYMENT_AUTH_JOIN, SESSION_WINDOWS
from tests.support.spark.running_query import running
from tests.support.state.inspected import FORMAT_2, at, explained, looked_at, ms, prepared, record, settled
from tests.support.state.moves import configured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

USERS = [f"user-{number:02}" for number in range(6)]


@ci_full
def test_windows_are_counted_with_their_ends(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    launch = prepared(tmp_path, broker, EVENT_WINDOWS)
    with configured(spark, FORMAT_2), running(launch, spark) as query:
        launch.send(record("user_id", user, "e1", 7, event_type="view", value=1) for user in USERS[:4])
        settled(query, at(7))
        launch.send([record("user_id", USERS[0], "e2", 8, event_type="view", value=2)])
        query.query.processAllAvailable()
        query.drain()
    found = looked_at(spark, launch, samples=2)

    sliding, tumbling = (v for v in found.variables if v.operator == "stateStoreSave")
    # An event is in five sliding windows of five minutes; the second one of a user adds a sixth.
    assert (sliding.rows, tumbling.rows) == (4 * 5 + 1, 4)
    assert sliding.timers is not None and tumbling.timers is not None
    assert (sliding.timers.count, sliding.timers.next_ms, sliding.timers.latest_ms) == (21, ms(8), ms(13))
    assert (tumbling.timers.count, tumbling.timers.next_ms) == (4, ms(10))
    assert tumbling.timers.bins[2] == 4  # within five minutes
    distinct = [v for v in found.variables if v.operator == "dedupeWithinWatermark"]
    assert [(v.rows, v.timers.next_ms if v.timers else 0) for v in distinct] == [(5, ms(9) + 1)] * 3
    assert found.size.keys == 21 + 4 + 15
    assert sum(load.keys for load in sliding.partitions) == 21
    # The windows of a user are in several partitions, and count together.
    assert (sliding.keys, sliding.largest[0].key, sliding.largest[0].rows) == (4, "us***(7)", 6)
    assert sliding.json_bytes == sum(key.bytes for key in sliding.largest)
    assert found.growth.samples[-1].keys == found.size.keys

    told = explained(spark, launch, USERS[0])
    kept = {(entry.operator, entry.store) for entry in told.entries}
    assert kept == {("stateStoreSave", "default"), ("dedupeWithinWatermark", "default")}
    ends = [entry.ends_ms or 0 for entry in told.entries if entry.operator == "stateStoreSave"]
    assert sorted(ends) == [ms(8), ms(9), ms(10), ms(10), ms(11), ms(12), ms(13)]
    changed = [h for h in told.history if h.what == "the row changed"]
    assert {change.field for h in changed for change in h.changes} >= {"count", "sum"}
    assert "user_id" in explanation_page(told) and "Timers" in inspection_page(found)


@ci_full
def test_open_sessions_are_counted_with_their_ends(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    launch = prepared(tmp_path, broker, SESSION_WINDOWS)
    gap_ms = int(SESSION_WINDOWS.logic["gap_ms"])
    with configured(spark, FORMAT_2), running(launch, spark) as query:
        launch.send(record("user_id", user, "e1", 7, event_type="view") for user in USERS[:4])
        launch.send([record("user_id", USERS[0], "e2", 8, event_type="buy")])
        settled(query, at(8))
        query.drain()
    found = looked_at(spark, launch, samples=0)

    (sessions,) = (v for v in found.variables if v.operator == SESSION_WINDOW)
    assert (sessions.rows, sessions.meaning) == (4, "open sessions")
    assert sessions.timers is not None
    timers = sessions.timers.count, sessions.timers.next_ms, sessions.timers.latest_ms
    assert timers == (4, ms(7) + gap_ms, ms(8) + gap_ms)

    told = explained(spark, launch, USERS[0])
    (entry,) = (entry for entry in told.entries if entry.operator == SESSION_WINDOW)
    assert entry.ends_ms == ms(8) + gap_ms
    assert "the end of its session" in entry.why


@ci_full
def test_both_sides_of_a_join_are_read(tmp_path: Path, broker: RunningBroker, spark: SparkSession) -> None:
    launch = prepared(tmp_path, broker, PAYMENT_AUTH_JOIN)
    with running(launch, spark) as query:
        launch.send(record("account_id", user, "t1", 7, kind="transaction", amount=10) for user in USERS[:6])
        launch.send(record("account_id", user, "a1", 8, kind="authenticated") for user in USERS[:2])
        settled(query, at(6))
        query.drain()
    found = looked_at(spark, launch, samples=0)

    rows = {v.name: v.rows for v in found.variables if v.operator == "symmetricHashJoin"}
    assert rows == {
        "left-keyToNumValues": 6,
        "left-keyWithIndexToValue": 6,
        "right-keyToNumValues": 2,
        "right-keyWithIndexToValue": 2,
    }
    assert {v.name: v.keys for v in found.variables if v.operator == "symmetricHashJoin"} == rows
    (groups,) = (v for v in found.variables if v.operator == "stateStoreSave")
    assert groups.rows == 2  # the matched ones; the others wait in the join
    told = explained(spark, launch, USERS[0])
    by_store = {(entry.operator, entry.store): entry for entry in told.entries}
    left = by_store["symmetricHashJoin", "left-keyWithIndexToValue"]
    assert (left.value["event_id"], left.ends_ms) == ("t1", None)
    assert "the join's range" in left.why
    (group,) = (entry for entry in told.entries if entry.operator == "stateStoreSave")
    assert group.ends_ms == ms(7) + 1  # events of the same millisecond have distinct microseconds
    assert {h.what for h in told.history} <= {"the row was added", "the row changed", "the row was removed"}
    assert explained(spark, launch, "unknown").entries == ()
