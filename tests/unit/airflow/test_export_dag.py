"""The DAG `export_<stream>`: only for streams with the section, and what its task asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateward.airflow.factories.state_exports import state_export_dags
from stateward.airflow.operators.state_operation import StateOperationOperator
from stateward.control.jobs.verbs import VERBS, arguments_of
from stateward.control.reconcile.started_streams import started_specs
from stateward.project.settings import Settings
from tests.support.control.started import mark_started
from tests.support.small_spec import small_spec


@pytest.fixture
def streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "streams"
    folder.mkdir()
    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path))
    monkeypatch.setenv("STATEWARD_STREAMS", str(folder))
    return folder


def test_a_stream_without_the_section_has_no_dag(streams: Path) -> None:
    small_spec(streams)
    mark_started("small")
    assert state_export_dags(started_specs(Settings())) == {}


def test_the_state_is_exported_if_the_stream_was_ever_deployed(streams: Path) -> None:
    small_spec(streams, state_export={"schedule": "0 5 * * *", "keep": 7})
    assert state_export_dags(started_specs(Settings())) == {}
    mark_started("small")
    [(dag_id, dag)] = state_export_dags(started_specs(Settings())).items()
    assert (dag_id, dag.max_active_runs, dag.catchup) == ("export_small", 1, False)
    assert [task.task_id for task in dag.topological_sort()] == ["deployed", "export"]
    export = dag.get_task("export")
    assert isinstance(export, StateOperationOperator)
    assert export.verb == "export" and export.asks is not None and export.asks["stream"] == "small"
    assert arguments_of(VERBS["export"], export.given or {})["keep"] == 7
