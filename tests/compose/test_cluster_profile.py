"""The profile `cluster`: executors on Spark workers, and everything that a stream keeps on S3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compose.conftest import started
from tests.compose.project import Project
from tests.compose.sessions import (
    STREAM,
    send_later_events,
    wait_for_sessions,
    wait_for_validation,
    wait_in_the_middle,
)

pytestmark = pytest.mark.compose

SPARK_WORKERS = ("spark-worker-1", "spark-worker-2")
SECRET = "a-secret-of-this-test"
VALUES = {
    "COMPOSE_PROFILES": "cluster",
    "SPARK_MASTER": "spark://spark-master:7077",
    "SPARK_LOCAL_IP": "drivers",
    "SPARK_LOCAL_HOSTNAME": "drivers",
    "DATA": "s3://stateward/data",
    "STORAGE_CONN_ID": "s3",
    "S3_ACCESS_KEY": "an-identity",
    "S3_SECRET_KEY": SECRET,
}
_APPLICATIONS = """
import json, urllib.request
found = json.load(urllib.request.urlopen("http://spark-master:8080/json/"))["activeapps"]
print(json.dumps({one["name"]: one["id"] for one in found}))
"""
_FOLDERS = """
import json
from stateward.airflow.storage_connection import use_storage_in_command
from stateward.contract.storage import list_names
from stateward.project.settings import Settings
use_storage_in_command(Settings())
print(json.dumps(list_names(Settings().data)))
"""


@pytest.fixture(scope="module")
def on_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project with the profile, which the other tests' project comes after."""
    with started(tmp_path_factory.mktemp("on-cluster"), 500, **VALUES) as one:
        yield one


def runs(project: Project, service: str, pattern: str) -> bool:
    """Whether a process with such a command line runs in a container; not if there is no container."""
    return project.run("exec", "-T", service, "pgrep", "-f", pattern).returncode == 0


def with_executors(project: Project) -> list[str]:
    """The services that have executors of the stream."""
    names = project.python(_APPLICATIONS)
    [application] = [id for name, id in names.items() if name == f"stateward-{STREAM}"]
    pattern = f"CoarseGrainedExecutorBackend.*{application}"
    return [name for name in (*SPARK_WORKERS, "worker") if runs(project, name, pattern)]


def test_a_stream_has_its_executors_on_a_spark_worker_and_its_tables_on_s3(on_cluster: Project) -> None:
    on_cluster.stateward("replay", "data/web_events.jsonl.gz", "--topic", "user_events", "--tick")
    on_cluster.trigger(STREAM, "run")
    wait_for_sessions(on_cluster, "")
    assert runs(on_cluster, "worker", "stateward/driver.py")
    [having] = with_executors(on_cluster)
    assert having in SPARK_WORKERS
    wait_for_validation(on_cluster)

    kept = {"checkpoints", "control", "leases", "quality", "releases", "status", "tables"}
    assert set(on_cluster.python(_FOLDERS)) >= kept
    assert "data" not in on_cluster.must("exec", "-T", "worker", "ls", "/var/lib/stateward").split()
    arguments = on_cluster.must("exec", "-T", "worker", "sh", "-c", "cat /proc/[0-9]*/cmdline || true")
    assert "SparkSubmit" in arguments
    assert SECRET not in arguments


def test_a_killed_spark_worker(on_cluster: Project, tmp_path: Path) -> None:
    before = on_cluster.stream(STREAM)
    [having] = with_executors(on_cluster)
    send_later_events(on_cluster, tmp_path, 100, "killed")
    wait_in_the_middle(on_cluster, before["counters"]["delivered"])
    on_cluster.must("kill", "--signal", "SIGKILL", having)
    wait_for_sessions(on_cluster, "killed")
    [other] = set(SPARK_WORKERS) - {having}
    assert with_executors(on_cluster) == [other]
    assert on_cluster.stream(STREAM)["epoch"] == before["epoch"]
    on_cluster.up()
