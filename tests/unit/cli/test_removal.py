"""`stateward remove` by Airflow's API. Prepared answers stand in for it; tests/e2e asks a real one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from stateward.cli.streams import removal
from stateward.cli.streams.actions import ActionError
from stateward.cli.streams.removal import asked
from stateward.project.settings import Settings

SETTINGS = Settings(airflow_url="http://airflow")
LIST = {"tables": False, "confirm": None}
FOUND = {"removes": ["checkpoints, file:///c"], "keeps": ["table t, file:///t"]}


class Answers:
    """An Airflow with one DAG, whose task `remove` ends in a state and has pushed something."""

    def __init__(self, state: str = "success", **pushed: Any) -> None:
        self.state, self.pushed = state, pushed
        self.confs: list[dict[str, Any]] = []

    def has_dag(self, dag_id: str) -> bool:
        return dag_id == "stream_s"

    def is_paused(self, dag_id: str) -> bool:
        return False

    def trigger(self, dag_id: str, conf: dict[str, Any]) -> str:
        self.confs.append(conf)
        return "manual__1"

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        return {"upgrade": "skipped", "remove": self.state, "deploy": None, "supervise": None}

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str) -> Any:
        assert (dag_id, run_id, task_id) == ("stream_s", "manual__1", "remove")
        return self.pushed.get(key)


def no_report(part: str, what: str) -> None:
    """Progress is tested with the other actions."""


def test_a_run_without_the_name_lists_and_one_with_it_removes() -> None:
    airflow = Answers(return_value=FOUND)
    listed = asked(airflow, SETTINGS, "s", LIST, no_report)
    assert listed.lines() == ["Removes:", "- checkpoints, file:///c", "Keeps:", "- table t, file:///t"]
    asked(airflow, SETTINGS, "s", {"tables": True, "confirm": "s"}, no_report)
    assert airflow.confs == [
        {"action": "remove", "tables": False, "confirm": None},
        {"action": "remove", "tables": True, "confirm": "s"},
    ]


def test_a_refusal_has_the_reason_of_the_task() -> None:
    refused = Answers("failed", reason="stream s: it runs. Stop it first")
    with pytest.raises(ActionError, match=r"^stream s: .* Stop it first"):
        asked(refused, SETTINGS, "s", LIST, no_report)
    with pytest.raises(ActionError, match="the task remove failed"):
        asked(Answers("failed"), SETTINGS, "s", LIST, no_report)


@pytest.mark.parametrize(
    ("yes", "answer", "found", "runs"),
    [
        (True, None, FOUND, 2),
        (False, True, FOUND, 2),
        (False, False, FOUND, 1),
        (True, None, {"removes": []}, 1),
    ],
)
def test_nothing_is_removed_before_it_was_listed_and_confirmed(
    monkeypatch: pytest.MonkeyPatch, yes: bool, answer: bool | None, found: dict[str, Any], runs: int
) -> None:
    airflow = Answers(return_value=found)

    @contextlib.contextmanager
    def connected(*_: object) -> Iterator[Answers]:
        yield airflow

    def confirm(text: str, *, abort: bool) -> None:
        assert len(airflow.confs) == 1 and abort and answer is not None
        if not answer:
            raise typer.Abort

    monkeypatch.setattr(removal, "connect", connected)
    monkeypatch.setattr(typer, "confirm", confirm)
    with contextlib.suppress(typer.Abort):
        removal.run("s", tables=False, yes=yes)
    assert [conf["confirm"] for conf in airflow.confs] == [None, "s"][:runs]
