"""`inspect` and `explain` on the bucket log of a real checkpoint with known content."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stateward.runtime.ingest.packed_format import bucket_of
from stateward.state.errors import StateError
from stateward.state.pages.page import explanation_page, inspection_page
from stateward.state.reader.keyed_variables import KEYS
from stateward.state.reader.retained_batches import retained
from stateward.state.reader.state_reader import keyed_rows
from stateward.state.reader.stores import format_version, readable, stores
from stateward.state.verbs.inspect import inspect
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import MINUTE_MS, USER_SESSIONS, Launch
from tests.support.spark.running_query import running
from tests.support.state.inspected import (
    FORMAT_2,
    at,
    explained,
    later_release,
    looked_at,
    ms,
    prepared,
    record,
    settled,
    variable,
)
from tests.support.state.moves import configured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

GAP_MS = 30 * MINUTE_MS
BUCKETS = 8
USERS = [f"user-{number:02}" for number in range(30)]
BUSY, ENDED, LARGE, LATER = USERS[1], USERS[3], USERS[7], USERS[20:]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory, broker: RunningBroker, spark: SparkSession) -> Launch:
    """Sessions of 20 users from minute 1, of 10 more from minute 5; one has ended, one is large.

    The batches, as they are planned by hand: events of minute 1; tick; events of minute 5; tick, and so on.
    """
    launch = prepared(tmp_path_factory.mktemp("sessions"), broker, USER_SESSIONS, buckets=BUCKETS)
    with configured(spark, FORMAT_2), running(launch, spark) as query:
        kinds = {user: "view" * 100 if user == LARGE else "view" for user in USERS[:20]}
        launch.send(record("user_id", user, "e1", 1, event_type=kind) for user, kind in kinds.items())
        settled(query, at(2))
        launch.send(record("user_id", user, "e1", 5, event_type="view") for user in LATER)
        launch.send([record("user_id", ENDED, "e2", 5, event_type="view", is_last=True)])
        launch.send([record("user_id", BUSY, "e2", 5, event_type="view")])
        settled(query, at(6))
        settled(query, at(10))
        query.drain()
    assert format_version(launch.uri("checkpoint")) == 2
    return launch


def test_a_keyed_stream_is_measured_key_by_key(sessions: Launch, spark: SparkSession) -> None:
    found = looked_at(spark, sessions, show_keys=True, largest=3)

    live = [user for user in USERS if user != ENDED]
    keys = variable(found, KEYS)
    assert found.watermark_ms == ms(10)
    assert (found.size.keys, keys.rows, found.unreadable) == (len(live), len(live), 0)
    assert found.size.key_bytes == sum(len(user) for user in live)
    by_bucket = [sum(bucket_of(user, BUCKETS) == bucket for user in live) for bucket in range(BUCKETS)]
    assert [load.keys for load in keys.buckets] == by_bucket
    assert len(keys.partitions) == 2
    assert sum(load.keys for load in keys.partitions) == len(live)
    assert sum(load.value_bytes for load in keys.partitions) == keys.value_bytes == found.size.value_bytes
    assert keys.largest[0].key == LARGE
    assert keys.largest[0].bytes > 400 > keys.largest[1].bytes
    assert found.bucket_skew is not None and found.bucket_skew > 1

    assert keys.timers is not None
    assert (keys.timers.count, keys.timers.overdue) == (len(live), 0)
    # The sessions of minute 1 end half an hour later, those of minute 5 four minutes after them.
    assert (keys.timers.oldest_ms, keys.timers.next_ms) == (ms(1) + GAP_MS, ms(1) + GAP_MS)
    assert keys.timers.latest_ms == ms(5) + GAP_MS

    timers = variable(found, "timers")
    assert timers.rows == len([number for number in by_bucket if number])
    assert variable(found, "head").rows == timers.rows


def test_sizes_and_growth_are_those_of_the_files_and_of_the_batches(
    sessions: Launch, spark: SparkSession
) -> None:
    found = looked_at(spark, sessions, samples=100, mtbf_ms=60_000)

    files = [path for path in (sessions.folder / "checkpoint" / "state").rglob("*") if path.is_file()]
    partition_files = [path for path in files if path.relative_to(sessions.folder).parts[3].isdigit()]
    assert found.size.disk_bytes == sum(path.stat().st_size for path in partition_files)
    stored = [v for v in found.variables if v.measure == "stored"]
    assert found.size.store_bytes == sum(v.key_bytes + v.value_bytes for v in stored)
    assert found.size.store_bytes > found.size.live_bytes  # the log holds older states too
    counts = [sample.keys for sample in found.growth.samples]
    assert counts[0] <= 20
    assert (max(counts), counts[-1]) == (30, 29)
    assert [sample.batch_id for sample in found.growth.samples] == list(range(found.last_batch + 1))
    assert found.growth.keys_per_hour is not None and found.growth.keys_per_hour > 0
    assert found.interval.cost_ms is not None and found.interval.cost_ms > 0
    assert not found.interval.is_assumed
    assert [(bound.limit, bound.reached) for bound in found.bounds] == [(10_000, 0), (10_000, 0)]
    assert all(key.key == "us***(7)" for key in variable(found, KEYS).largest)
    page = inspection_page(found)
    assert not any(user in page for user in USERS)


def test_an_earlier_batch_is_read_as_it_was(sessions: Launch, spark: SparkSession) -> None:
    history = explained(spark, sessions, LATER[0]).history
    begins = history[0].batch_id
    before, since = (looked_at(spark, sessions, batch_id=batch, samples=0) for batch in (begins - 1, begins))
    assert 20 <= before.size.keys < since.size.keys <= 30
    found = retained(sessions.uri("checkpoint"), "user_sessions", begins - 1)
    (store,) = stores(spark, found.uri)
    with readable(spark, found.uri):
        read = {row["key"] for row in keyed_rows(spark, found, store).collect()}
    assert set(USERS[:20]) <= read <= set(USERS) - {LATER[0]}
    assert len(read) == before.size.keys


def test_without_the_declaration_states_are_counted_but_have_no_timers(
    sessions: Launch, spark: SparkSession
) -> None:
    found = inspect(spark, sessions.uri("checkpoint"), "user_sessions", samples=0)
    assert found.size.keys == 29
    assert variable(found, KEYS).timers is None
    assert any("declaration" in note for note in found.notes)


def test_states_of_an_older_version_are_read_as_upgraded(sessions: Launch, spark: SparkSession) -> None:
    job = later_release(USER_SESSIONS.job, whole=True)
    keys = variable(looked_at(spark, sessions, job=job, samples=0), KEYS)
    assert keys.timers is not None
    # Only this one has more than held events, which have no gap.
    assert (keys.timers.count, keys.timers.latest_ms) == (29, ms(5) + 2 * GAP_MS)
    found = explained(spark, sessions, BUSY, job=job)
    (entry,) = found.entries
    assert (entry.value["state"]["gap_ms"], entry.settled["state"]["gap_ms"]) == (GAP_MS, 2 * GAP_MS)

    unread = looked_at(spark, sessions, job=later_release(USER_SESSIONS.job, whole=False), samples=0)
    assert unread.unreadable == 29
    assert any("STATE_STEPS" in note for note in unread.notes)


def test_a_live_key_is_explained_to_its_end(sessions: Launch, spark: SparkSession) -> None:
    found = explained(spark, sessions, BUSY)

    (entry,) = found.entries
    assert (entry.bucket, entry.value["state"]["event_count"]) == (bucket_of(BUSY, BUCKETS), 1)
    # The second event is still held, although the watermark has passed it.
    assert [held[0] for held in entry.value["held"]] == ["e2"]
    assert entry.settled["state"]["event_count"] == 2
    assert (entry.ends_ms, entry.why.partition(":")[0]) == (
        ms(5) + GAP_MS,
        "the deadline of its state passes",
    )
    (end,) = found.coming
    assert (end.is_end, end.at_ms) == (True, ms(5) + GAP_MS)
    ((kind, row),) = end.rows
    assert (kind, row["close_reason"], row["closed_ms"]) == ("ClosedSession", "TIMEOUT", ms(5) + GAP_MS)
    assert found.bucket_timer_ms is not None
    assert found.bucket_timer_ms <= end.at_ms
    assert BUSY in explanation_page(found)


def test_a_key_is_followed_batch_by_batch(sessions: Launch, spark: SparkSession) -> None:
    came, busy = explained(spark, sessions, BUSY).history

    assert came.what == "the key starts; 1 event held until the watermark has passed"
    assert came.value == {"held": [["e1", ms(1), "view", False, None]]}
    assert busy.what == ("1 event held until the watermark has passed; 1 held event folded; its state starts")
    # Or that of minute 5, if other events of it were in an earlier batch.
    assert busy.watermark_ms in (ms(2), ms(3))
    assert {change.field for change in busy.changes} >= {"held", "recent", "state.last_ms"}
    assert came.batch_id < busy.batch_id
    assert came.planned_ms is not None and busy.planned_ms is not None
    assert came.planned_ms < busy.planned_ms
    # The explanation of an earlier batch has no later changes.
    until = explained(spark, sessions, BUSY, batch_id=busy.batch_id - 1)
    assert until.history == (came,)
    assert until.entries[0].value == came.value


def test_an_ended_key_shows_when_and_how_it_ended(sessions: Launch, spark: SparkSession) -> None:
    found = explained(spark, sessions, ENDED)
    assert (found.entries, found.coming) == ((), ())
    assert any("Nothing is kept" in note for note in found.notes)
    last = found.history[-1]
    assert last.value is None
    assert last.watermark_ms == ms(10)
    assert [happening.batch_id for happening in found.history] == sorted({h.batch_id for h in found.history})


def test_an_unknown_key_has_no_history(sessions: Launch, spark: SparkSession) -> None:
    found = explained(spark, sessions, "unknown")
    assert (found.entries, found.history) == ((), ())


def test_a_batch_that_is_not_retained_is_refused(sessions: Launch, spark: SparkSession) -> None:
    with pytest.raises(
        StateError, match=r"stream user_sessions: batch 999 .*retained are the batches 0 to \d+"
    ):
        looked_at(spark, sessions, batch_id=999)
    with pytest.raises(StateError, match="expected a checkpoint with a committed batch"):
        inspect(spark, sessions.uri("nowhere"), "user_sessions")
