"""A stream's driver and its executors as pods of the cluster that `KUBECONFIG` names, with HDFS beside it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from proof.traffic.generate import Plan
from proof.traffic.profiles import PROFILES
from stateward.contract.lease import read_holdings
from stateward.contract.storage import read_json
from stateward.contract.stream_control import Launch, control_from
from stateward.platform.parts.kafka import Broker
from stateward.platform.parts.ports import free_ports
from stateward.project.settings import CHECKOUT
from tests.support.cluster import daemons
from tests.support.cluster.hosts import Network
from tests.support.cluster.hosts import why_not_here as why_no_hosts
from tests.support.cluster.installation import ClusterInstallation, ClusterStream
from tests.support.cluster.kubernetes import IMAGE, Kubernetes, why_not_here
from tests.support.kafka.broker import RunningBroker
from tests.support.streams.traced import Traced
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.cluster

STREAM = "user_sessions"
# The node of a test has two cores, which Spark would ask for alone.
_CONF = {
    "spark.kubernetes.driver.request.cores": "200m",
    "spark.kubernetes.executor.request.cores": "200m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
_SPARK = {"driver_memory": "768m", "executor_memory": "512m", "conf": _CONF}


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    if reason := why_not_here() or why_no_hosts():
        pytest.skip(reason)
    one = Kubernetes(tmp_path_factory.mktemp("kubernetes"))
    one.install()
    yield one
    one.clear()


@pytest.fixture(scope="module")
def installation(
    kubernetes: Kubernetes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterInstallation]:
    """An installation with the rights of `stateward-airflow`, and data on HDFS that pods reach."""
    daemons.fetch_jars()
    network = Network(tmp_path_factory.mktemp("hosts"))
    port, controller = free_ports(2)
    kafka = CHECKOUT / "jars" / "kafka"
    folder = tmp_path_factory.mktemp("kafka")
    broker = RunningBroker(Broker(folder, kafka, network.address, port, controller, heap_mb=384))
    made: list[ClusterInstallation] = []
    try:
        network.open()
        network.add("storage")
        hdfs = daemons.start_hdfs(network.hosts["storage"])
        broker.start()
        master = f"k8s://{kubernetes.server}"
        extra = {"deploy-mode": "cluster", "namespace": kubernetes.namespace}
        connection = {"conn_type": "spark", "host": master, "extra": extra}
        own = {
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection),
            "STATEWARD_EXECUTOR_PYTHON": f"image:{os.environ[IMAGE]}",
            "KUBECONFIG": str(kubernetes.kubeconfig),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")])),
        }
        project = tmp_path_factory.mktemp("project") / "kubernetes"
        made.append(ClusterInstallation(project, f"{hdfs}/data", master, network.address, broker, own))
        yield made[0]
    finally:
        for one in made:
            one.close()
        broker.stop()
        network.close()


class Driven:
    """A stream whose driver is a pod, and what is done to its pods."""

    def __init__(self, kubernetes: Kubernetes, stream: ClusterStream) -> None:
        self._kubernetes = kubernetes
        self.stream = stream

    @property
    def launch(self) -> Launch:
        """The newest launch, as the control document has it."""
        layout = self.stream.installation.layout
        found = control_from(read_json(layout.control_uri(self.stream.name)) or {}).launch
        assert found is not None
        return found

    def wait(self, what: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for a status of it, whether Airflow is there or not."""

        def look() -> dict[str, Any] | None:
            status = self.stream.status()
            return status if status and reached(status) else None

        def found() -> str:
            return f"{what}: {self.stream.status()}\n{self._kubernetes.said(self.stream.name)}"

        return wait_until(look, PATIENCE_S, found, poll_s=0.5)

    def delivered(self, count: int) -> None:
        self.wait(f"{count} are delivered", lambda status: (status.get("delivered") or 0) >= count)

    def pod(self, role: str) -> str:
        """The name of its only pod of a role."""
        [name] = self._kubernetes.names(self.stream.name, role)
        return name

    def another_runs(self, before: dict[str, Any]) -> dict[str, Any]:
        """Wait for the driver of another launch."""
        return self.wait(
            "another driver runs",
            lambda now: now["run_id"] != before["run_id"] and now["state"] == "running",
        )


def test_a_driver_as_a_pod_is_exact_whatever_happens_to_its_pods(
    kubernetes: Kubernetes, installation: ClusterInstallation
) -> None:
    airflow = installation.airflow
    migration = airflow.migrate()
    stream = installation.add(STREAM, spark=_SPARK)
    driven = Driven(kubernetes, stream)
    # An hour of event time, so that sessions end while it lasts.
    course = Traced(stream, Plan(PROFILES["daily"], 7, rate=1.5, minutes=60, topics=("user_events",)))
    installation.broker.create_topic(stream.topic, stream.partitions)
    parts = course.parts(5)
    course.send(parts[0])
    airflow.wait(migration)
    stream.run()
    driven.delivered(course.sent)
    application = driven.launch.application
    assert application is not None
    assert (application.kind, application.id) == ("kubernetes", driven.pod("driver"))

    course.send(parts[1])
    kubernetes("delete", "pod", driven.pod("executor"), "--grace-period", 1, "--wait=false")
    driven.delivered(course.sent)

    # Deleted: it drains within its grace period, and the supervision starts another one.
    before = stream.status()
    course.send(parts[2])
    kubernetes("delete", "pod", driven.pod("driver"), "--wait=false")
    driven.another_runs(before)
    # No crash, which would be counted.
    assert driven.launch.failure is None
    ends = {one.epoch: one.end for one in read_holdings(installation.layout.lease_uri(STREAM))}
    assert ends[before["epoch"]] == "released"
    driven.delivered(course.sent)

    before = stream.status()
    course.send(parts[3])
    kubernetes.fill_memory(driven.pod("driver"))
    driven.another_runs(before)
    assert driven.launch.failure is not None and driven.launch.failure.kind == "out_of_memory"

    # Airflow is away; its driver goes on, and is found again by the next supervision.
    run_id, pod = stream.status()["run_id"], driven.pod("driver")
    supervision = airflow.runs[-1]
    os.killpg(supervision.pid, signal.SIGKILL)
    supervision.wait()
    course.send(parts[4])
    driven.delivered(course.sent)
    stream.run()
    assert (stream.status()["run_id"], driven.pod("driver")) == (run_id, pod)

    course.finish(driven)
    stream.stop()
    wait_until(lambda: not kubernetes.pods(STREAM, "executor"), PATIENCE_S, "the executors are gone")
    assert course.wrong() == {}
    assert course.row_counts()["sessions"] > 100
    # Nothing that acts there had more rights than the documents give.
    denied = [line for line in kubernetes.said(STREAM).splitlines() if "forbidden" in line.lower()]
    assert denied == []
