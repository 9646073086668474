"""`stateward remove`: two runs of the stream's DAG, which list and then remove; between them the question."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import typer
from rich.console import Console

from stateward.cli.steps import Steps
from stateward.cli.streams.actions import POLL_S, ActionError, Airflow, connect, request, watch
from stateward.platform.running import running_settings
from stateward.project.settings import Settings

_TASK = "remove"


class AnsweringAirflow(Airflow, Protocol):
    """What a removal needs of Airflow's API."""

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str) -> Any:
        """Return what a task has pushed; None if it has not."""


@dataclass(frozen=True)
class Listed:
    """What a run has found, a line for each thing."""

    removes: list[str]
    keeps: list[str]

    def lines(self) -> list[str]:
        """Return all of it as text."""
        removes = ["Removes:", *(f"- {line}" for line in self.removes)]
        return [*(removes if self.removes else ["There is nothing to remove."]), "Keeps:"] + [
            f"- {line}" for line in self.keeps
        ]


def run(stream: str, *, tables: bool, yes: bool) -> None:
    """List what Airflow finds, ask, and remove it.

    Raises:
        ActionError: The stream runs, or something could not be removed.
        AirflowApiError: Airflow refuses, or does not answer.
        typer.Abort: It was not confirmed.
    """
    settings, console = running_settings(Settings()), Console()
    with connect(settings, os.environ) as airflow:

        def carry_out(confirm: str | None) -> Listed:
            with Steps(console) as steps:
                return asked(airflow, settings, stream, {"tables": tables, "confirm": confirm}, steps.report)

        listed = carry_out(None)
        for line in listed.lines():
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        if listed.removes:
            if not yes:
                typer.confirm(f"Remove this of the stream {stream}? There is no way back.", abort=True)
            carry_out(stream)
            console.print(f"The stream {stream} is removed. Its next start begins from nothing.")


def asked(
    airflow: AnsweringAirflow,
    settings: Settings,
    stream: str,
    conf: Mapping[str, object],
    report: Callable[[str, str], None],
    *,
    pause: Callable[[], None] = lambda: time.sleep(POLL_S),
) -> Listed:
    """Let a run of the stream's DAG list what it would remove, or remove it.

    Args:
        airflow: Airflow's API.
        settings: Airflow's address, and the prefix of DAGs.
        stream: The stream.
        conf: `tables`: whether its own tables go too; `confirm`: its name, for the removal itself.
        report: Takes the progress.
        pause: Waits until the next look.

    Raises:
        ActionError: The run has failed; with the task's reason.
        AirflowApiError: Airflow refuses.
    """
    page = request(airflow, settings, stream, {"action": "remove", **conf})
    where = (page.dag_id, page.run_id, _TASK)
    if failed := watch(airflow, page, "remove", report, pause):
        raise ActionError(airflow.xcom(*where, "reason") or f"stream {stream}: {failed}")
    found = airflow.xcom(*where, "return_value") or {}
    return Listed(found.get("removes", []), found.get("keeps", []))
