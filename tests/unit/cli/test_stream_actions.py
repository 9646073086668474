"""The actions of a stream by Airflow's API. Prepared answers stand in for it; tests/e2e asks a real one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from stateward.cli.streams.actions import Action, ActionError, Run, connect, request, watch
from stateward.contract.process_output import READY
from stateward.project.settings import Settings

SETTINGS = Settings(airflow_url="http://airflow")
RUN = Run("stream_s", "manual__1", "http://airflow/dags/stream_s/runs/manual__1")

States = dict[str, str | None]


class Answers:
    """An Airflow with one DAG."""

    def __init__(self, states: Sequence[States] = (), *, paused: bool = False) -> None:
        self.states = list(states)
        self.paused = paused
        self.triggered: list[tuple[str, dict[str, Any]]] = []

    def has_dag(self, dag_id: str) -> bool:
        return dag_id == "stream_s"

    def is_paused(self, dag_id: str) -> bool:
        return self.paused

    def trigger(self, dag_id: str, conf: dict[str, Any]) -> str:
        self.triggered.append((dag_id, conf))
        return "manual__2026-11-23T10:00:00+00:00"

    def task_states(self, dag_id: str, run_id: str) -> States:
        return self.states.pop(0)


def watched(action: Action, *states: States) -> tuple[str, list[tuple[str, str]]]:
    said: list[tuple[str, str]] = []
    return watch(Answers(states), RUN, action, lambda *line: said.append(line), lambda: None), said


def test_a_run_of_the_streams_dag_is_triggered_with_the_action() -> None:
    airflow = Answers()
    run = request(airflow, SETTINGS, "s", {"action": "stop"})
    assert airflow.triggered == [("stream_s", {"action": "stop"})]
    assert run.address == "http://airflow/dags/stream_s/runs/manual__2026-11-23T10%3A00%3A00%2B00%3A00"


def test_a_stream_that_is_not_there_is_refused_before_anything_is_triggered() -> None:
    airflow = Answers()
    with pytest.raises(ActionError, match="stream t: expected the DAG stream_t"):
        request(airflow, SETTINGS, "t", {"action": "stop"})
    assert airflow.triggered == []


def test_a_paused_dag_is_refused_because_its_runs_wait() -> None:
    airflow = Answers(paused=True)
    with pytest.raises(ActionError, match=r"found it paused\. Unpause it at http://airflow/dags/stream_s"):
        request(airflow, SETTINGS, "s", {"action": "stop"})
    assert airflow.triggered == []


def test_it_is_done_when_the_stream_is_deployed_while_the_supervision_goes_on() -> None:
    failed, said = watched(
        "run",
        {"upgrade": None, "deploy": None, "supervise": None},
        {"upgrade": "skipped", "deploy": "running", "supervise": None},
        {"upgrade": "skipped", "deploy": "success", "supervise": "deferred"},
    )
    assert failed == ""
    assert said == [("deploy", "waiting"), ("deploy", "running"), ("deploy", READY)]


@pytest.mark.parametrize(
    ("action", "states", "task"),
    [
        ("restart", {"upgrade": "skipped", "deploy": "failed", "supervise": "upstream_failed"}, "deploy"),
        ("upgrade", {"upgrade": "failed", "deploy": "upstream_failed", "supervise": None}, "upgrade"),
    ],
)
def test_a_failed_task_is_named_with_the_place_of_its_log(action: Action, states: States, task: str) -> None:
    failed, _ = watched(action, states)
    assert f"the task {task} failed" in failed
    assert RUN.address in failed


def test_an_upgrade_is_done_after_the_deployment_that_follows_it() -> None:
    failed, said = watched(
        "upgrade",
        {"upgrade": "success", "deploy": "queued"},
        {"upgrade": "success", "deploy": "success"},
    )
    assert failed == ""
    assert said[-1] == ("deploy", READY)


def test_without_a_login_it_says_which_variables_to_set(tmp_path: Path) -> None:
    with pytest.raises(ActionError, match="Set STATEWARD_AIRFLOW_TOKEN, or STATEWARD_AIRFLOW_USER"):
        connect(Settings(home=tmp_path), {})
