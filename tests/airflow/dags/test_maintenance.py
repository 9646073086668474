"""The DAG `maintenance`: its form, its tasks one by one, and a run by a real Airflow."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.dag_processing.dagbag import DagBag
from deltalake import DeltaTable, write_deltalake

from stateward.airflow.compat import AirflowSkipException
from stateward.airflow.operators.maintain_table import (
    ListTablesOperator,
    MaintainTableOperator,
    ReportTablesOperator,
)
from stateward.project.layout import Layout
from tests.airflow.conftest import ROOT, STREAM
from tests.support.control.started import mark_started

pytestmark = pytest.mark.airflow


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path))
    made = Layout.of()
    mark_started(STREAM)
    for table, files in (("sessions", 17), ("alerts", 2)):
        for n in range(files):
            write_deltalake(made.table_uri(table), pa.table({"n": [n]}), mode="append")
    return made


def dag() -> Any:
    bag = DagBag(str(ROOT / "dags" / "none"))
    bag.process_file(str(ROOT / "dags" / "streams.py"), only_if_updated=False)
    assert bag.import_errors == {}
    return bag.dags["maintenance"]


def context(**form: Any) -> Any:
    ti = SimpleNamespace(dag_id="maintenance", run_id="run 1")
    return {"params": {"dry_run": False, "tables": None, **form}, "ti": ti}


def test_it_runs_each_hour_one_run_and_one_table_at_a_time(layout: Layout) -> None:
    found = dag()

    assert [task.task_id for task in found.topological_sort()] == ["tables", "maintain", "report"]
    assert found.timetable.expression == "17 * * * *"
    assert (found.max_active_runs, found.catchup, found.is_paused_upon_creation) == (1, False, None)
    assert found.get_task("maintain").max_active_tis_per_dagrun == 1
    assert found.params.get_param("dry_run").resolve() is False
    tables = found.params.get_param("tables")
    assert (tables.resolve(), tables.resolve(["sessions"])) == (None, ["sessions"])


def test_the_tasks_find_every_table_maintain_it_and_report(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ListTablesOperator(task_id="tables").execute(context())
    assert names == ["alerts", "sessions"]

    rows = [MaintainTableOperator(task_id="maintain", table=name).execute(context()) for name in names]
    ReportTablesOperator(task_id="report", rows=rows).execute(context())

    assert len(DeltaTable(layout.table_uri("sessions")).file_uris()) == 1
    kept = DeltaTable(layout.table_uri("table_maintenance")).to_pyarrow_table().to_pylist()
    assert {(row["table"], row["run_id"], row["files_before"], row["files_after"]) for row in kept} == {
        ("sessions", "maintenance/run 1", 17, 1),
        ("alerts", "maintenance/run 1", 2, 2),
    }
    assert "17 → 1" in capsys.readouterr().out


def test_a_dry_run_of_one_table_changes_nothing(layout: Layout) -> None:
    form = {"dry_run": True, "tables": ["sessions"]}
    assert ListTablesOperator(task_id="tables").execute(context(**form)) == ["sessions"]
    MaintainTableOperator(task_id="maintain", table="sessions").execute(context(**form))

    assert len(DeltaTable(layout.table_uri("sessions")).file_uris()) == 17
    assert not DeltaTable.is_deltatable(layout.table_uri("table_maintenance"))


def test_without_any_table_there_is_nothing_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path / "empty"))

    with pytest.raises(AirflowSkipException, match="no tables yet"):
        ListTablesOperator(task_id="tables").execute(context())


@pytest.mark.usefixtures("metadata_database")
def test_airflow_runs_a_task_for_each_table(layout: Layout) -> None:
    found = dag().test(run_conf={}).get_task_instances()

    assert sorted((task.task_id, str(task.state)) for task in found) == [
        *(("maintain", "success"), ("maintain", "success")),
        *(("report", "success"), ("tables", "success")),
    ]
    assert len(DeltaTable(layout.table_uri("sessions")).file_uris()) == 1
