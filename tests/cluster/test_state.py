"""State operations on a cluster: the stream is drained, changed and started again by Airflow's tasks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proof.traffic.generate import Plan
from proof.traffic.profiles import PROFILES
from stateward.contract.storage import list_names
from tests.cluster.conftest import Cluster, Installed
from tests.support.cluster.installation import ClusterStream
from tests.support.full import only_full
from tests.support.streams.traced import Traced

pytestmark = [pytest.mark.cluster, only_full]


@pytest.mark.parametrize("storage", ["hdfs", "s3"])
def test_a_stream_that_was_repartitioned_and_restored_is_exact(
    cluster: Cluster, installed: Installed, storage: str
) -> None:
    installation = installed("state", storage)
    stream = installation.add("user_sessions")
    installation.airflow.wait(installation.airflow.migrate())
    course = Traced(stream, Plan(PROFILES["daily"], 9, rate=1, minutes=60, topics=("user_events",)))
    cluster.broker.create_topic(stream.topic, stream.partitions)
    parts = course.parts(3)
    stream.run()
    installation.airflow.store_dags()
    course.send(parts[0])
    stream.delivered(course.sent)

    _operate(stream, "repartition", repartition_partitions=5)
    course.send(parts[1])
    stream.delivered(course.sent)
    _operate(stream, "savepoint", savepoint_reason="before the last part")
    savepoint = max(list_names(installation.layout.savepoints_uri(stream.name)))
    course.send(parts[2])
    stream.delivered(course.sent)
    _operate(stream, "restore", restore_savepoint=savepoint)
    course.finish(stream)
    stream.stop()
    assert course.wrong() == {}


def _operate(stream: ClusterStream, verb: str, **fields: Any) -> None:
    airflow = stream.installation.airflow
    conf = {"verb": verb, "stream": stream.name, "watch_s": 60, **fields}
    run = airflow.start("state_operations", json.dumps(conf))
    states = airflow.wait(run)
    assert states["outcome"] == "success", f"{states} {airflow.said(run)[-4000:]}"
    assert states["watch"] == "success"
