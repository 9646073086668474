"""The DAG `state_<stream>`: for which streams it exists, and how its tasks depend on each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator

from stateward.airflow.factories.state_care import state_care_dags
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


def test_a_stream_has_its_dag_once_it_was_started(streams: Path) -> None:
    small_spec(streams)
    assert state_care_dags(started_specs(Settings())) == {}
    mark_started("small")
    assert list(state_care_dags(started_specs(Settings()))) == ["state_small"]


def test_a_yaml_that_wants_neither_care_nor_savepoints_has_none(streams: Path) -> None:
    mark_started("small")
    small_spec(streams, state_care={"policy": "off"}, savepoints=None)
    assert state_care_dags(started_specs(Settings())) == {}
    small_spec(streams, state_care={"policy": "off"})
    assert list(state_care_dags(started_specs(Settings()))) == ["state_small"], "savepoints are on by default"


def test_a_storage_that_is_away_takes_no_dag_away(streams: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(uri: str) -> bool:
        raise OSError("no route to host")

    small_spec(streams)
    monkeypatch.setattr("stateward.control.reconcile.started_streams.exists", away)
    assert list(state_care_dags(started_specs(Settings()))) == ["state_small"]


def test_the_tasks_look_first_and_ask_before_they_act(streams: Path) -> None:
    small_spec(streams, savepoints={"keep": 5, "days": 2}, state_care={"schedule": "0 4 * * *"})
    mark_started("small")
    dag = state_care_dags(started_specs(Settings()))["state_small"]
    order = [task.task_id for task in dag.topological_sort()]
    assert order == [
        "deployed",
        "advise",
        "dry_run",
        "savepoint",
        "verify",
        "prune",
        "approve",
        "act",
        "report",
    ]
    assert (dag.max_active_runs, dag.catchup) == (1, False)
    approve = dag.get_task("approve")
    assert isinstance(approve, ApprovalOperator)
    assert (approve.defaults, approve.downstream_task_ids) == (["Reject"], {"act"})
    assert approve.upstream_task_ids == {"dry_run", "prune"}, "what cannot be tried or saved is not asked"
    # A savepoint is made whatever was advised; a change only if nothing before it has failed.
    rules = {name: str(dag.get_task(name).trigger_rule.value) for name in ("savepoint", "act", "report")}
    assert rules == {"savepoint": "all_done", "act": "none_failed", "report": "all_done"}
    assert dag.get_task("act").retries == 0, "another try would be another operation"
    prune: Any = dag.get_task("prune")
    assert prune.given == {"keep": 5, "days": 2}
