"""Airflow in pods, installed by its official chart, deploys a stream as pods beside it and validates it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.conftest import Hosts
from tests.cluster.test_kubernetes import STREAM, installed, require_exact, traffic
from tests.support.cluster import daemons
from tests.support.cluster.airflow_chart import IMAGE, STREAMS, AirflowChart, why_no_chart
from tests.support.cluster.installation import ClusterInstallation
from tests.support.cluster.kubernetes import IMAGE as SPARK_IMAGE
from tests.support.cluster.kubernetes import Kubernetes
from tests.support.full import only_full

pytestmark = [pytest.mark.cluster, only_full]

_FOLDER = "/etc/stateward/streams"


@pytest.fixture
def chart(kubernetes: Kubernetes, tmp_path: Path) -> Iterator[AirflowChart]:
    if reason := why_no_chart():
        pytest.skip(reason)
    made = AirflowChart(kubernetes)
    made.offer_volume(tmp_path / "logs")
    kubernetes.secret("stateward-login", '--from-literal=passwords.json={"admin": "a-password"}')
    try:
        yield made
    finally:
        made.uninstall()
        kubernetes.clear()


def test_an_airflow_in_pods_deploys_validates_and_finds_its_stream(
    kubernetes: Kubernetes, hosts: Hosts, chart: AirflowChart, tmp_path: Path
) -> None:
    # It only names what the chart's Airflow has, for what the test sends and reads.
    installation = installed(kubernetes, hosts, tmp_path, hosts.broker)
    driven, course, parts = traffic(kubernetes, installation, 4)
    own = tmp_path / "own.yaml"
    own.write_text(yaml.safe_dump(_values(kubernetes, hosts, installation)))
    course.send(parts[0])
    chart.install(own, installation.settings.streams)

    supervised = chart.start(f"stream_{STREAM}", {"action": "run"})
    driven.delivered(course.sent)
    assert driven.launch.application is not None
    assert driven.launch.application.id == driven.pod("driver")
    validation = chart.start(f"quality_{STREAM}", {"table": "sessions"})
    course.send(parts[1])
    assert chart.wait(f"quality_{STREAM}", validation, 600)["validate"] == "success"
    driven.delivered(course.sent)

    # The pod that supervises and submits is gone; the driver goes on, and is found by the next one.
    run_id, pod = driven.stream.status()["run_id"], driven.pod("driver")
    kubernetes("delete", "pod", "airflow-scheduler-0")
    course.send(parts[2])
    driven.delivered(course.sent)
    kubernetes("wait", "--for=condition=Ready", "pod/airflow-scheduler-0", "--timeout=280s")
    assert (driven.stream.status()["run_id"], driven.pod("driver")) == (run_id, pod)

    before = driven.stream.status()
    kubernetes("delete", "pod", pod, "--wait=false")
    driven.another_runs(before)
    course.send(parts[3])
    course.finish(driven)
    stopped = chart.start(f"stream_{STREAM}", {"action": "stop"})
    assert chart.wait(f"stream_{STREAM}", stopped, 300)["deploy"] == "success"
    assert chart.wait(f"stream_{STREAM}", supervised, 300)["supervise"] == "success"
    require_exact(kubernetes, course)


def _values(kubernetes: Kubernetes, hosts: Hosts, installation: ClusterInstallation) -> dict[str, Any]:
    """What differs from the values of the documentation: addresses, images, and the streams."""
    # Pods come from the address of their node, if not from their own.
    database = daemons.start_postgres(hosts.network.hosts["storage"], "all", ["airflow"])
    repository, tag = os.environ[IMAGE].rsplit(":", 1)
    connection = {
        "conn_type": "spark",
        "host": "k8s://https://kubernetes.default.svc:443",
        "extra": {"deploy-mode": "cluster", "namespace": kubernetes.namespace},
    }
    variables = {
        "STATEWARD_DATA": installation.data,
        "STATEWARD_KAFKA_BOOTSTRAP": hosts.broker.bootstrap,
        "STATEWARD_CREATE_TOPICS_AT": hosts.broker.bootstrap,
        "STATEWARD_EXECUTOR_PYTHON": f"image:{os.environ[SPARK_IMAGE]}",
        "STATEWARD_STREAMS": _FOLDER,
        "STATEWARD_SUPERVISED_BY": "Kubernetes",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection),
    }
    host, port = database.rsplit("@", 1)[1].split(":")
    metadata = {"user": "postgres", "pass": "any", "host": host, "port": int(port), "db": "airflow"}
    return {
        "images": {"airflow": {"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"}},
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "volumes": [{"name": "streams", "configMap": {"name": STREAMS}}],
        "volumeMounts": [{"name": "streams", "mountPath": _FOLDER}],
        "data": {"metadataConnection": metadata},
    }
