"""State operations on a cluster: the stream is drained, changed and started again by Airflow's tasks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from proof.traffic.generate import Plan
from proof.traffic.profiles import PROFILES
from stateward.contract.storage import list_names, write_bytes
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


def test_an_installation_moves_from_a_disk_to_hdfs(cluster: Cluster, installed: Installed) -> None:
    before, after = installed("moved", "disk"), installed("moved")
    stream, moved = before.add("user_sessions"), after.add("user_sessions")
    for airflow in (before.airflow, after.airflow):
        airflow.wait(airflow.migrate())
    course = Traced(moved, Plan(PROFILES["daily"], 9, rate=1, minutes=60, topics=("user_events",)))
    cluster.broker.create_topic(stream.topic, stream.partitions)
    first, second = course.parts(2)
    stream.run()
    before.airflow.store_dags()
    course.send(first)
    stream.delivered(course.sent)
    stream.stop()
    _outcome(stream, "savepoint", savepoint_reason="a move")

    disk = Path(before.data.removeprefix("file://"))
    for file in disk.rglob("*"):
        if file.is_file():
            write_bytes(f"{after.data}/{file.relative_to(disk)}", file.read_bytes())
    shutil.rmtree(disk)
    after.airflow.store_dags()
    [savepoint] = list_names(after.layout.savepoints_uri(moved.name))
    _outcome(moved, "restore", restore_savepoint=savepoint)
    moved.run()
    course.send(second)
    course.finish(moved)
    moved.stop()
    assert course.wrong() == {}
    assert course.row_counts()["sessions"] > 100


def _operate(stream: ClusterStream, verb: str, **fields: Any) -> None:
    assert _outcome(stream, verb, **fields)["watch"] == "success"


def _outcome(stream: ClusterStream, verb: str, **fields: Any) -> dict[str, str]:
    run, states = stream.operate(verb, **fields)
    assert states["outcome"] == "success", f"{states} {stream.installation.airflow.said(run)[-4000:]}"
    return states
