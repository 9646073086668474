"""What is downstream of a table runs after a validation without a critical failure, and not after another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.models.asset import AssetActive, AssetDagRunQueue, AssetEvent, AssetModel
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.utils.session import create_session
from deltalake import write_deltalake
from sqlalchemy import delete, select

from stateward.airflow.compat import AirflowException
from stateward.airflow.operators.valid_asset import valid_asset
from stateward.project.airflow_options import SPARK_CONNECTION
from stateward.project.layout import Layout
from tests.airflow.conftest import ROOT, STREAM
from tests.support.control.started import mark_started

pytestmark = pytest.mark.airflow

# As docs/quality.md has it.
CONSUMER = """
from airflow.sdk import DAG, task
from stateward.airflow.operators.valid_asset import valid_asset

sessions = valid_asset("user_sessions", "sessions")

with DAG(dag_id="sessions_to_warehouse", schedule=[sessions], is_paused_upon_creation=False):

    @task
    def load(triggering_asset_events=None):
        version = triggering_asset_events[sessions][-1].extra["version"]

    load()
"""
HOLDS = {"name": "id_is_present", "severity": "critical", "success": True, "observed_value": "fine"}
WARNS = {"name": "has_rows", "severity": "warn", "success": False, "observed_value": "0"}
BREAKS = {"name": "id_is_unique", "severity": "critical", "success": False, "observed_value": "2 rows"}


class Validations:
    """The shipped DAG and a consumer in one Airflow; `results` are what the next Spark job is to find."""

    def __init__(self, folder: Path) -> None:
        self.layout = Layout.of()
        self.results: list[dict[str, Any]] = []
        self.environments: list[dict[str, str]] = []
        file = folder / "consumer.py"
        file.write_text(CONSUMER)
        self.bag = DagBag(str(folder / "none"))
        for path in (file, ROOT / "dags" / "streams.py"):
            self.bag.process_file(str(path), only_if_updated=False)
        assert self.bag.import_errors == {}
        sync_bag_to_db(self.bag, "dags-folder", None)
        self.activate()
        write_deltalake(self.layout.table_uri("sessions"), pa.table({"n": [1]}))

    def activate(self) -> None:
        """What the scheduler does with assets that some DAG names: others have no events."""
        name = valid_asset(STREAM, "sessions").name
        with create_session() as session:
            session.execute(delete(AssetActive).where(AssetActive.name == name))
            query = select(AssetModel).where(AssetModel.name == name, AssetModel.uri == self.uri)
            session.add(AssetActive.for_asset(session.scalars(query).one()))

    def submit(self, operator: SparkSubmitOperator) -> None:
        """What the Spark job would do: write its results, and fail where one does not hold."""
        given = operator.application_args or []
        arguments = dict(zip(given[::2], given[1::2], strict=True))
        self.environments.append(dict(operator._get_hook()._env or {}))
        same = {
            "stream": STREAM,
            "table": "sessions",
            "from_version": 0,
            "table_version": 7,
            "run_id": arguments["--run-id"],
            "docs_path": "a page.html",
        }
        rows = pa.Table.from_pylist([same | row for row in self.results])
        write_deltalake(self.layout.table_uri("quality_results"), rows, mode="append")
        done = rows.select(["stream", "table", "run_id"]).slice(0, 1)
        write_deltalake(self.layout.table_uri("quality_validations"), done, mode="append")
        if not all(row["success"] for row in self.results):
            raise AirflowException("Cannot execute: spark-submit. Error code is: 2.")

    def run(self, *results: dict[str, Any]) -> str:
        """Validate with these results; return the task's state."""
        self.results = list(results)
        run = self.bag.dags[f"quality_{STREAM}"].test()
        [state] = [task.state for task in run.get_task_instances() if task.task_id == "validate"]
        return str(state)

    def events(self) -> list[dict[str, Any]]:
        """What the events of the valid rows say, oldest first."""
        name = valid_asset(STREAM, "sessions").name
        query = select(AssetEvent.extra).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        with create_session() as session:
            wanted = query.where(AssetModel.name == name, AssetModel.uri == self.uri).order_by(AssetEvent.id)
            return list(session.scalars(wanted))

    @property
    def uri(self) -> str:
        return self.layout.table_uri("sessions_valid")

    def waiting(self) -> list[str]:
        """DAGs that the scheduler is about to start for an asset."""
        with create_session() as session:
            return list(session.scalars(select(AssetDagRunQueue.target_dag_id)))


@pytest.fixture
def validations(
    tmp_path: Path, metadata_database: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Validations]:
    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", SPARK_CONNECTION)
    # The DAGs were stored a moment ago, with another address of the asset.
    monkeypatch.setenv("AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL", "0")
    mark_started(STREAM)
    made = Validations(tmp_path)
    monkeypatch.setattr(SparkSubmitOperator, "execute", lambda self, context: made.submit(self))
    yield made


def test_downstream_waits_after_a_critical_failure_and_goes_on_after_a_warning(
    validations: Validations, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    assert validations.run(HOLDS, WARNS, BREAKS) == "failed"
    assert validations.events() == []
    assert "sessions_to_warehouse" not in validations.waiting()

    assert validations.run(HOLDS, WARNS) == "success"
    said = caplog.text + "".join(capfd.readouterr())
    assert "has_rows (warn): 0" in said
    [event] = validations.events()
    assert event | {"stream": STREAM, "table": "sessions", "version": 7} == event
    assert event["warnings"] == [{"name": "has_rows", "observed": "0"}]
    assert event["report"] == "http://localhost:18080/stateward/data-docs/a%20page.html"
    assert "sessions_to_warehouse" in validations.waiting()

    assert validations.run(HOLDS) == "success"
    assert [event["warnings"] for event in validations.events()] == [event["warnings"], []]
    # The job masks with the installation's secret, which is in no log.
    [secret] = {environment["STATEWARD_MASK_SECRET"] for environment in validations.environments}
    assert len(secret) == 64
    assert secret not in said
