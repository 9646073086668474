"""What a driver is submitted with by a connection to Kubernetes in cluster mode."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateward.airflow.spark_submit import build_command
from stateward.control.launchers.driver_process import DriverCommand, LaunchError
from stateward.project.settings import Settings
from tests.airflow.operators.test_spark_submit import STREAM, _conf, code_in
from tests.support.small_spec import small_spec

pytestmark = pytest.mark.airflow

IMAGE = "registry.example.org/stateward-spark:1"


@pytest.fixture(autouse=True)
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"deploy-mode": "cluster", "namespace": "streams"}
    connection = {"conn_type": "spark", "host": "k8s://https://10.0.0.1:6443", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path))
    monkeypatch.setenv("STATEWARD_DATA", "hdfs://namenode:8020/data")
    monkeypatch.setenv("STATEWARD_EXECUTOR_PYTHON", f"image:{IMAGE}")


def submitted(tmp_path: Path) -> DriverCommand:
    spec = small_spec(tmp_path).model_copy(update={"stream": STREAM})
    return build_command(spec, Settings(), "run-1", code_in(tmp_path))


def test_a_driver_in_cluster_mode_is_a_pod_that_takes_its_code_from_the_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("airflow.providers.cncf.kubernetes.kube_client")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    found = submitted(tmp_path)
    assert found.application is not None
    assert (found.application.kind, found.application.cluster) == ("kubernetes", "https://10.0.0.1:6443")
    assert (found.application.namespace, found.application.id) == ("streams", "")
    conf = _conf(found.arguments)
    assert conf["spark.kubernetes.namespace"] == "streams"
    assert conf["spark.kubernetes.container.image"] == IMAGE
    assert conf["spark.executor.instances"] == "1"
    assert conf["spark.submit.pyFiles"] == "hdfs://namenode:8020/data/releases/code/code.zip"
    # The last ones: the application and its argument.
    assert found.arguments[-2:] == [
        "hdfs://namenode:8020/data/releases/code/code.py",
        f"hdfs://namenode:8020/data/control/{STREAM}.config.json",
    ]
    assert "--jars" not in found.arguments, "they are in the image"
    assert found.arguments[found.arguments.index("--deploy-mode") + 1] == "cluster"
    assert "a-secret" not in " ".join(found.arguments)


def test_without_the_provider_of_kubernetes_its_installation_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = "airflow.providers.apache.spark.hooks.spark_submit.kube_client"
    monkeypatch.setattr(hook, None, raising=False)
    with pytest.raises(LaunchError, match=r"found none\. Install it: pip install 'stateward\[kubernetes\]'"):
        submitted(tmp_path)
