"""A stream's driver and its executors as pods of the cluster that `KUBECONFIG` names, with HDFS beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from proof.traffic.generate import Plan
from proof.traffic.profiles import PROFILES
from proof.traffic.records import Slice
from stateward.contract.lease import read_holdings
from stateward.contract.names import ENV_KAFKA_CLIENT
from stateward.contract.reading import parse_time
from stateward.contract.storage import read_json
from stateward.contract.stream_control import Control, Launch, control_from
from stateward.project.settings import CHECKOUT
from tests.cluster.conftest import Hosts
from tests.support.cluster.daemons import JARS
from tests.support.cluster.installation import ClusterInstallation, ClusterStream
from tests.support.cluster.kubernetes import IMAGE, TEMPLATE, Kubernetes
from tests.support.cluster.s3 import BUCKET, connection, environment, start_s3
from tests.support.full import only_full
from tests.support.kafka.broker import RunningBroker
from tests.support.kafka.secured_broker import PASSWORD, SecuredBroker
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
SPARK = {"driver_memory": "768m", "executor_memory": "512m", "conf": _CONF}


def installed(
    kubernetes: Kubernetes,
    hosts: Hosts,
    folder: Path,
    broker: RunningBroker,
    root: str | None = None,
    **more: str,
) -> ClusterInstallation:
    """An installation with the rights of `stateward-airflow`, and its data below a root, by default HDFS."""
    master = f"k8s://{kubernetes.server}"
    extra = {"deploy-mode": "cluster", "namespace": kubernetes.namespace}
    own = {
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": master, "extra": extra}),
        "STATEWARD_EXECUTOR_PYTHON": f"image:{os.environ[IMAGE]}",
        "KUBECONFIG": str(kubernetes.kubeconfig),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")])),
        **more,
    }
    data = f"{root or hosts.hdfs}/{folder.name}/data"
    made = ClusterInstallation(folder / "kubernetes", data, master, hosts.network.address, broker, own)
    jobs = {**SPARK, "conf": {**_CONF, "spark.kubernetes.namespace": kubernetes.namespace}}
    (made.folder / "include" / "batch_jobs.yaml").write_text(yaml.safe_dump({"defaults": jobs}))
    return made


@pytest.fixture
def installation(kubernetes: Kubernetes, hosts: Hosts, tmp_path: Path) -> Iterator[ClusterInstallation]:
    made = installed(kubernetes, hosts, tmp_path, hosts.broker)
    try:
        yield made
    finally:
        made.close()
        kubernetes.clear()


class Driven:
    """A stream whose driver is a pod, and what is done to its pods."""

    def __init__(self, kubernetes: Kubernetes, stream: ClusterStream) -> None:
        self._kubernetes = kubernetes
        self.stream = stream

    @property
    def control(self) -> Control:
        """Its control document."""
        layout = self.stream.installation.layout
        return control_from(read_json(layout.control_uri(self.stream.name)) or {})

    @property
    def launch(self) -> Launch:
        """The newest launch, as the control document has it."""
        found = self.control.launch
        assert found is not None
        return found

    def wait(
        self, what: str, reached: Callable[[dict[str, Any]], bool], timeout_s: float = PATIENCE_S
    ) -> dict[str, Any]:
        """Wait for a status of it, whether Airflow is there or not."""

        def look() -> dict[str, Any] | None:
            status = self.stream.status()
            return status if status and reached(status) else None

        def found() -> str:
            return f"{what}: {self.stream.status()}\n{self._kubernetes.said(self.stream.name)}"

        return wait_until(look, timeout_s, found, poll_s=0.5)

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


def traffic(
    kubernetes: Kubernetes, installation: ClusterInstallation, count: int
) -> tuple[Driven, Traced, list[list[Slice]]]:
    """A stream that does not run yet, and its traffic in parts."""
    stream = installation.add(STREAM, spark=SPARK)
    driven = Driven(kubernetes, stream)
    # An hour of event time, so that sessions end while it lasts.
    course = Traced(stream, Plan(PROFILES["daily"], 7, rate=1.5, minutes=60, topics=("user_events",)))
    installation.broker.create_topic(stream.topic, stream.partitions)
    return driven, course, course.parts(count)


def begun(
    kubernetes: Kubernetes, installation: ClusterInstallation, count: int
) -> tuple[Driven, Traced, list[list[Slice]]]:
    """A stream that has delivered the first one of some parts of its traffic."""
    airflow = installation.airflow
    migration = airflow.migrate()
    driven, course, parts = traffic(kubernetes, installation, count)
    course.send(parts[0])
    airflow.wait(migration)
    driven.stream.run()
    driven.delivered(course.sent)
    return driven, course, parts


def test_a_driver_as_a_pod_is_exact_whatever_happens_to_its_pods(
    kubernetes: Kubernetes, installation: ClusterInstallation
) -> None:
    driven, course, parts = begun(kubernetes, installation, 5)
    stream = driven.stream
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
    # The next launch has it; the one after that says that the lease of the dead one was still held.
    wait_until(
        lambda: driven.launch.run_id != before["run_id"], PATIENCE_S, "another is launched", poll_s=0.2
    )
    assert driven.launch.failure is not None and driven.launch.failure.kind == "out_of_memory"
    driven.another_runs(before)

    # Airflow is away; its driver goes on, and is found again by the next supervision.
    run_id, pod = stream.status()["run_id"], driven.pod("driver")
    stream.leave()
    course.send(parts[4])
    driven.delivered(course.sent)
    stream.run()
    assert (stream.status()["run_id"], driven.pod("driver")) == (run_id, pod)

    ended_exact(kubernetes, driven, course)


@only_full
def test_a_stream_as_a_pod_is_validated_and_repartitioned_and_goes_on_for_two_minutes_alone(
    kubernetes: Kubernetes, installation: ClusterInstallation
) -> None:
    airflow = installation.airflow
    driven, course, parts = begun(kubernetes, installation, 4)
    stream = driven.stream
    airflow.store_dags()
    validation = airflow.start(f"quality_{STREAM}", json.dumps({"table": "sessions"}))
    course.send(parts[1])
    assert airflow.wait(validation, 400)["validate"] == "success", airflow.said(validation)[-6000:]
    driven.delivered(course.sent)

    operation, states = stream.operate("repartition", repartition_partitions=5)
    assert (states["outcome"], states["watch"]) == ("success", "success"), airflow.said(operation)[-6000:]
    course.send(parts[2])
    driven.delivered(course.sent)
    for run in (validation, operation):
        assert "forbidden" not in airflow.said(run).lower()

    # Nothing of Airflow is left.
    run_id, pod, alone = stream.status()["run_id"], driven.pod("driver"), datetime.now(UTC)
    supervision = stream.leave()
    assert supervision.poll() is not None
    course.send(parts[3])
    driven.wait(
        "it goes on for two minutes",
        lambda status: parse_time(status["updated_at"]) > alone + timedelta(minutes=2),
        300,
    )
    driven.delivered(course.sent)
    stream.run()
    assert (stream.status()["run_id"], driven.pod("driver")) == (run_id, pod)
    ended_exact(kubernetes, driven, course)


@only_full
def test_a_stream_as_a_pod_is_upgraded_and_goes_back_if_the_upgrade_fails(
    kubernetes: Kubernetes, installation: ClusterInstallation
) -> None:
    airflow = installation.airflow
    driven, course, parts = begun(kubernetes, installation, 4)
    stream, logic = driven.stream, installation.folder / "spark_jobs" / STREAM / "logic.py"
    airflow.store_dags()
    sound, release = logic.read_text(), driven.control.release
    opening = "        session = merge(state, event) if state"
    assert opening in sound
    logic.write_text(sound.replace(opening, f"        raise ArithmeticError(key)\n{opening}"))
    run = stream.begin("upgrade")
    driven.wait("it is drained", lambda status: status["state"] == "stopped")
    # Only an event reaches the fault.
    course.send(parts[1])
    states = airflow.wait(run, 600)
    assert (states["watch"], states["go_back.watch"]) == ("failed", "success"), airflow.said(run)[-6000:]
    assert driven.control.release == release
    driven.delivered(course.sent)

    logic.write_text(f"{sound}\n# Another release.\n")
    run = stream.begin("upgrade")
    course.send(parts[2])
    states = airflow.wait(run, 400)
    assert (states["outcome"], states["watch"]) == ("success", "success"), airflow.said(run)[-6000:]
    assert driven.control.release != release
    course.send(parts[3])
    driven.delivered(course.sent)
    ended_exact(kubernetes, driven, course)


@only_full
def test_a_pod_has_the_password_of_kafka_and_the_keys_of_the_storage_from_secrets(
    kubernetes: Kubernetes, hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secured = SecuredBroker.in_folder(tmp_path / "broker", hosts.network.address)
    broker = RunningBroker(secured, client=secured.client())
    # Airflow has the files at the path where the pods have the Secret.
    place, address = tmp_path / "client", start_s3(hosts.network.hosts["storage"])
    # For this process. Airflow's have the connection only.
    for variable, value in (found := environment(address)).items():
        monkeypatch.setenv(variable, value)
    keys = {"access-key-id": found["AWS_ACCESS_KEY_ID"], "secret-access-key": found["AWS_SECRET_ACCESS_KEY"]}
    client, template = place / "client.properties", tmp_path / "pod-template.yaml"
    place.mkdir()
    template.write_text(TEMPLATE.read_text().replace("/etc/stateward/kafka", str(place)))
    monkeypatch.setenv(ENV_KAFKA_CLIENT, str(client))
    more = {"STATEWARD_POD_TEMPLATE": str(template), ENV_KAFKA_CLIENT: str(client)}
    # The submission looks at what it sends, with Hadoop's client on this host.
    more |= {**connection(address), "SPARK_DIST_CLASSPATH": f"{JARS / 's3a'}/*"}
    installation = installed(kubernetes, hosts, tmp_path, broker, f"s3://{BUCKET}", **more)
    try:
        broker.start()
        secured.write_client_file(client, ssl_ca_location=str(place / "ca.pem"))
        (place / "ca.pem").write_bytes(secured.certificate.read_bytes())
        kubernetes.secret("stateward-kafka", f"--from-file={place}")
        kubernetes.secret("stateward-storage", *(f"--from-literal={key}={keys[key]}" for key in keys))
        driven, course, parts = begun(kubernetes, installation, 2)
        for role in ("driver", "executor"):
            seen = kubernetes("exec", driven.pod(role), "--", "printenv", "AWS_SECRET_ACCESS_KEY")
            assert seen.strip() == keys["secret-access-key"]
        held = kubernetes("get", "pods,configmaps,services", "-o", "yaml") + kubernetes.said(STREAM)
        assert str(place) in held
        assert not [secret for secret in (PASSWORD, keys["secret-access-key"]) if secret in held]
        course.send(parts[1])
        ended_exact(kubernetes, driven, course)
    finally:
        installation.close()
        kubernetes.clear()
        broker.stop()


def ended_exact(kubernetes: Kubernetes, driven: Driven, course: Traced) -> None:
    """End a stream, and compare."""
    course.finish(driven)
    driven.stream.stop()
    require_exact(kubernetes, course)


def require_exact(kubernetes: Kubernetes, course: Traced) -> None:
    """Compare what a stream that has ended has written with the truth."""
    wait_until(lambda: not kubernetes.pods(STREAM, "executor"), PATIENCE_S, "the executors are gone")
    assert course.wrong() == {}
    assert course.row_counts()["sessions"] > 100
    # Nothing that acts there had more rights than the documents give.
    denied = [line for line in kubernetes.said(STREAM).splitlines() if "forbidden" in line.lower()]
    assert denied == []
