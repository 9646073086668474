"""What a stream's driver and a validation are submitted with, by the connection that they name."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from deltalake import write_deltalake
from pyarrow import table

from stateward.airflow.compat import AirflowException, AirflowFailException
from stateward.airflow.operators.validate_table import ValidateTableOperator
from stateward.airflow.spark_submit import build_command
from stateward.contract.names import ENV_MASK_SECRET
from stateward.contract.stream_control import Application
from stateward.control.launchers.driver_process import LaunchError
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from tests.support.small_spec import small_spec

pytestmark = pytest.mark.airflow

STREAM = "user_sessions"
STANDALONE = "spark://master:7077"


@pytest.fixture(autouse=True)
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", _spark(STANDALONE))
    return Layout.of()


def _spark(master: str) -> str:
    return json.dumps({"conn_type": "spark", "host": master})


def _conf(command: list[str]) -> dict[str, str]:
    given = [command[at + 1] for at, part in enumerate(command) if part == "--conf"]
    return dict(one.split("=", 1) for one in given)


def code_in(folder: Path) -> Path:
    """A release, as small as one can be."""
    for file in (f"spark_jobs/{STREAM}/declaration.py", "stateward/driver.py"):
        (folder / "code" / file).parent.mkdir(parents=True)
        (folder / "code" / file).touch()
    return folder / "code"


def test_a_driver_on_a_standalone_cluster_takes_what_its_yaml_declares(tmp_path: Path) -> None:
    spark = {"executors": 2, "executor_cores": 3, "executor_memory": "2g"}
    # The name of a stream that the project has code for.
    spec = small_spec(tmp_path, spark=spark).model_copy(update={"stream": STREAM})
    conf = _conf(build_command(spec, Settings(), "run-1", code_in(tmp_path)).arguments)
    wanted = {
        "spark.cores.max": "6",
        "spark.executor.cores": "3",
        "spark.executor.memory": "2g",
        "spark.dynamicAllocation.enabled": "false",
    }
    assert wanted.items() <= conf.items()


def test_a_driver_on_a_local_master_is_asked_for_no_executors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", _spark("local[2]"))
    spec = small_spec(tmp_path).model_copy(update={"stream": STREAM})
    conf = _conf(build_command(spec, Settings(), "run-1", code_in(tmp_path)).arguments)
    assert not [name for name in conf if name.startswith(("spark.executor.", "spark.cores", "spark.dynamic"))]


def test_a_driver_in_cluster_mode_on_yarn_is_an_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = small_spec(tmp_path).model_copy(update={"stream": STREAM})
    code = code_in(tmp_path)
    extra = {"deploy-mode": "cluster", "queue": "streams"}
    connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    with pytest.raises(LaunchError, match="yarn_resourcemanager_webapp_address"):
        build_command(spec, Settings(), "run-1", code)

    # It outlives the pod of its task.
    monkeypatch.setenv("AIRFLOW_IS_K8S_EXECUTOR_POD", "True")
    extra["yarn_resourcemanager_webapp_address"] = "rm:8088/"
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    command = build_command(spec, Settings(), "run-1", code)
    assert command.application == Application("yarn", "http://rm:8088")
    conf = _conf(command.arguments)
    assert (conf["spark.yarn.maxAppAttempts"], conf["spark.yarn.tags"]) == ("1", "stateward-run-1")
    given = list(pairwise(command.arguments))
    assert {("--deploy-mode", "cluster"), ("--queue", "streams"), ("--master", "yarn")} <= set(given)

    monkeypatch.delenv("AIRFLOW_IS_K8S_EXECUTOR_POD")
    del extra["deploy-mode"]
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    client = build_command(spec, Settings(), "run-1", code)
    assert client.application is None and "spark.yarn.tags" not in _conf(client.arguments)


def _validate(layout: Layout) -> None:
    write_deltalake(layout.table_uri("sessions"), table({"id": [1]}))
    ti = SimpleNamespace(dag_id="quality", run_id="manual__1", try_number=1)
    context: Any = {"ti": ti, "params": {}, "triggering_asset_events": {}}
    ValidateTableOperator(task_id="validate", stream=STREAM, table="sessions").execute(context)


def _submitted(monkeypatch: pytest.MonkeyPatch, layout: Layout) -> dict[str, str]:
    """What `spark-submit` would be given by a validation."""
    found: dict[str, str] = {}

    def execute(operator: SparkSubmitOperator, context: object) -> None:
        found.update(operator.conf or {})
        raise AirflowException("not submitted")

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
    with pytest.raises(AirflowException, match="not submitted"):
        _validate(layout)
    return found


def test_a_validation_takes_one_core_of_a_cluster(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = _submitted(monkeypatch, layout)
    assert (conf["spark.cores.max"], conf["spark.driver.memory"]) == ("1", "1g")
    assert conf["spark.ui.enabled"] == "false"


@pytest.mark.parametrize(
    "spark",
    [
        {"host": "yarn", "extra": {"deploy-mode": "cluster"}},
        {"host": "yarn"},
        {"host": "k8s://https://10.0.0.1:6443", "extra": {"deploy-mode": "cluster", "namespace": "streams"}},
        {"host": "k8s://https://10.0.0.1:6443"},
        {"host": STANDALONE, "extra": {"deploy-mode": "cluster"}},
        {"host": "local[2]"},
    ],
    ids=lambda spark: f"{spark['host']} {spark.get('extra', {}).get('deploy-mode', '')}",
)
def test_the_secret_of_masks_is_in_no_argument_of_a_validation(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, spark: dict[str, Any]
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", **spark}))
    monkeypatch.setenv(ENV_MASK_SECRET, "a-secret-of-masks")
    found: dict[str, Any] = {}

    def popen(command: list[str], **given: Any) -> None:
        found.update(command=command, **given)
        raise AirflowException("not submitted")

    monkeypatch.setattr("airflow.providers.apache.spark.hooks.spark_submit.subprocess.Popen", popen)
    with pytest.raises(AirflowException, match="not submitted"):
        _validate(layout)
    assert found["env"][ENV_MASK_SECRET] == "a-secret-of-masks"
    assert "a-secret-of-masks" not in " ".join(found["command"])
    assert ("--deploy-mode", "client") in list(pairwise(found["command"]))


def test_a_validation_without_its_connection_fails_without_a_retry(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, metadata_database: Path
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    with pytest.raises(AirflowFailException, match=f"stream {STREAM}: expected the Airflow connection"):
        _validate(layout)


def test_a_driver_is_not_started_in_a_pod_that_ends_with_its_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_IS_K8S_EXECUTOR_POD", "True")
    with pytest.raises(LaunchError, match=f"stream {STREAM}: expected a task whose host outlives it"):
        build_command(
            small_spec(tmp_path).model_copy(update={"stream": STREAM}), Settings(), "run-1", code_in(tmp_path)
        )
