"""Generated traffic on a real broker and real Spark: every stream writes what was known in advance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from proof.traffic.generate import Plan
from proof.traffic.profiles import PROFILES
from tests.support.full import ci_full, only_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import (
    ACTION_COUNTS,
    DEVICE_LIFECYCLE,
    FRAUD_WATCH,
    INTRUSION_PATTERNS,
    RAW_EVENTS,
    USER_ACTIVITY,
    USER_SESSIONS,
    Launch,
    Stream,
)
from tests.support.spark.running_query import running
from tests.support.streams.catalogue import QUIET
from tests.support.streams.oracle import STREAMS
from tests.support.streams.traced import Traced
from tests.support.streams.traffic_proof import course_of, prove

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, only_full]


def plan_for(stream: Stream, rate: float = 40) -> Plan:
    return Plan(PROFILES["storm"], seed=3, rate=rate, minutes=2, topics=(STREAMS[stream.name],))


@pytest.mark.parametrize(
    "stream",
    [pytest.param(USER_SESSIONS, marks=ci_full), USER_ACTIVITY, DEVICE_LIFECYCLE, INTRUSION_PATTERNS],
    ids=lambda stream: stream.name,
)
def test_a_stream_writes_what_was_known_in_advance(
    stream: Stream, tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    launch = Launch(tmp_path, broker, f"traffic-{stream.name}", stream=stream)
    broker.create_topic(launch.topic, launch.partitions)
    traced = Traced(launch, plan_for(stream))
    with running(launch, spark) as query:
        # In parts, so that the watermark moves while states are open.
        for part in traced.parts(3):
            traced.send(part)
            query.settle()
        query.tick(traced.end() + QUIET)
        traced.send_late()
        query.settle()
        left = query.state_rows()
    assert traced.wrong() == {}
    assert all(traced.row_counts().values()), f"a table without a row shows nothing: {traced.row_counts()}"
    assert left == 0
    # A proof that cannot fail shows nothing.
    spoiled = {stream.tables[0], "dead_letters", "late_events", "batch_counts"}
    for table in spoiled:
        DeltaTable(launch.uri("tables", table)).delete()
    assert set(traced.wrong()) == spoiled


# Drivers are killed at work in the chaos run too, with the same proof.
def test_a_driver_that_is_killed_at_work_writes_it_too(tmp_path: Path, broker: RunningBroker) -> None:
    launch = Launch(tmp_path, broker, "traffic-killed", stream=FRAUD_WATCH)
    proof = prove(launch, plan_for(FRAUD_WATCH, rate=60), kills=1)
    assert proof.wrong == {}
    assert proof.kills == 1
    assert all(proof.rows.values()), f"a table without a row shows nothing: {proof.rows}"


def test_every_record_is_landed_once_as_it_was_sent(tmp_path: Path, broker: RunningBroker) -> None:
    launch = Launch(tmp_path, broker, "traffic-landed", stream=RAW_EVENTS)
    plan = Plan(PROFILES["storm"], seed=3, rate=60, minutes=2)
    course = course_of(launch, plan)
    proof = prove(launch, plan, kills=1, course=course)
    assert proof.wrong == {}
    assert proof.kills == 1
    assert proof.rows == {"raw_events": proof.records}
    assert proof.records > plan.total
    DeltaTable(launch.uri("tables", "raw_events")).delete("partition = 1 AND offset = 7")
    # One of each topic.
    assert len(course.wrong()["raw_events"]["missing"]) == 3


# test_action_counts_stream shows it on less traffic, and `make truth` on more.
def test_every_action_is_counted_once_at_the_time_of_its_batch(tmp_path: Path, broker: RunningBroker) -> None:
    launch = Launch(tmp_path, broker, "traffic-counted", stream=ACTION_COUNTS)
    plan = Plan(PROFILES["storm"], seed=3, rate=60, minutes=2, topics=("user_events",))
    course = course_of(launch, plan)
    proof = prove(launch, plan, kills=1, course=course)
    assert proof.wrong == {}
    assert proof.kills == 1
    assert proof.rows["action_counts"] > 1000
    table = DeltaTable(launch.uri("tables", "action_counts"))
    table.update({"action_count": "action_count + 1"}, predicate="user_id = 'user-00000'")
    assert set(course.wrong()) == {"action_counts", "sums of counts"}
