"""Streams and their jobs on a standalone cluster with HDFS or S3, on hosts that share only the network."""

from __future__ import annotations

import json

import pytest

from proof.traffic.generate import Plan
from proof.traffic.profiles import PROFILES
from stateward.contract.storage import list_names, read_text
from tests.cluster.conftest import Cluster, Installed
from tests.support.cluster.hosts import Host
from tests.support.cluster.installation import SMALL
from tests.support.full import ci_full, only_full
from tests.support.streams.oracle import STREAMS
from tests.support.streams.traced import Traced
from tests.support.streams.traffic_proof import course_of

pytestmark = pytest.mark.cluster

# What differs from the YAML as it is shipped, so that traffic of a minute comes to an end.
_COUNTED = {
    "event_time": {"allowed_lateness": "30m"},
    "logic": {"idle": "20s", "max_held_events": 10_000},
}


@pytest.mark.parametrize(
    "storage", [pytest.param("hdfs", marks=ci_full), pytest.param("s3", marks=only_full)]
)
def test_a_stream_beside_its_validation_is_exact_after_a_dead_executor_and_a_dead_driver(
    cluster: Cluster, installed: Installed, storage: str
) -> None:
    installation = installed("first", storage)
    airflow = installation.airflow
    migration = airflow.migrate()
    stream = installation.add("user_sessions")
    # An hour of event time, so that sessions end while it lasts.
    course = Traced(stream, Plan(PROFILES["daily"], 7, rate=1.5, minutes=60, topics=("user_events",)))
    cluster.broker.create_topic(stream.topic, stream.partitions)
    parts = course.parts(4)
    course.send(parts[0])
    airflow.wait(migration)
    stream.run()
    stream.delivered(course.sent)

    airflow.store_dags()
    validation = airflow.start(f"quality_{stream.name}", json.dumps({"table": "sessions"}))
    course.send(parts[1])
    assert airflow.wait(validation)["validate"] == "success", airflow.said(validation)[-3000:]
    docs = installation.layout.data_docs_uri
    assert "sessions" in (read_text(f"{docs}/index.html") or "")
    assert list_names(f"{docs}/validations")

    stream.delivered(course.sent)
    course.send(parts[2])
    assert sum(_kill_executors(host) for host in cluster.workers) == 1
    stream.delivered(course.sent)

    course.send(parts[3])
    stream.kill_driver()
    course.finish(stream)
    stream.stop()
    assert course.wrong() == {}
    assert course.row_counts()["sessions"] > 100


@only_full
@pytest.mark.parametrize("storage", ["hdfs", "s3"])
@pytest.mark.parametrize("name", [*STREAMS, "action_counts", "raw_events"])
def test_each_stream_is_exact_after_a_dead_driver(
    cluster: Cluster, installed: Installed, name: str, storage: str
) -> None:
    installation = installed("each", storage)
    topics = {**STREAMS, "action_counts": "user_events"}
    plan = Plan(PROFILES["daily"], 3, rate=2, minutes=20, topics=(topics[name],) if name in topics else ())
    stream = installation.add(name)
    if name == "action_counts":
        # The plans of all batches are needed to say what its rows have to be.
        conf = SMALL["conf"] | {"spark.sql.streaming.minBatchesToRetain": "100000"}
        stream = installation.add(name, **_COUNTED, spark=SMALL | {"conf": conf})
    installation.airflow.wait(installation.airflow.migrate())
    course = course_of(stream, plan)
    if name == "raw_events":
        stream = installation.add(name, source={"topics": list(course.topics), "tick": {"mode": "off"}})
    for topic in course.topics:
        cluster.broker.create_topic(topic, stream.partitions)
    first, second = course.parts(2)
    course.send(first)
    stream.run()
    stream.delivered(course.sent)
    course.send(second)
    stream.kill_driver()
    course.finish(stream)
    stream.stop()
    assert course.wrong() == {}
    assert sum(course.row_counts().values()) > 0


def _kill_executors(host: Host) -> int:
    """SIGKILL to the executors of a host; returns how many there were."""
    found = host.run("sh", "-c", "pgrep -f '[C]oarseGrainedExecutorBackend' || true").split()
    if found:
        host.run("kill", "-KILL", *found)
    return len(found)
