"""`stateward start`, `stop`, `restart`, `suspend`, `resume`, `upgrade`: a watched run of its DAG."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rich.console import Console

from stateward.cli.steps import Steps
from stateward.cli.streams.airflow_api import AirflowApi
from stateward.contract.names import ENV_AIRFLOW_PASSWORD, ENV_AIRFLOW_TOKEN, ENV_AIRFLOW_USER
from stateward.contract.process_output import READY
from stateward.platform.running import running_settings
from stateward.platform.secrets import ADMIN, Secrets
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.rendering.page_address import dag, dag_run, public

Action = Literal["run", "stop", "restart", "suspend", "resume", "upgrade", "remove"]

_DONE = frozenset({"success", "skipped"})
_FAILED = frozenset({"failed", "upstream_failed", "removed"})
_TASKS = {"upgrade": ("upgrade", "deploy"), "remove": ("remove",)}
POLL_S = 1.0


class ActionError(RuntimeError):
    """An action could not be asked for, or has failed."""


class Airflow(Protocol):
    """What an action needs of Airflow's API."""

    def has_dag(self, dag_id: str) -> bool:
        """Whether the DAG has been parsed."""

    def is_paused(self, dag_id: str) -> bool:
        """Whether its runs wait."""

    def trigger(self, dag_id: str, conf: dict[str, Any]) -> str:
        """Start a run, and return its id."""

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """Return the state of each task of a run."""


def run(action: Action, stream: str, *, reason: str | None, watch_s: int | None, wait: bool) -> None:
    """Ask for an action, and show its tasks until it is done.

    Raises:
        ActionError: It could not be asked for, or has failed.
        AirflowApiError: Airflow refuses, or does not answer.
    """
    settings, console = running_settings(Settings()), Console()
    conf: dict[str, Any] = {"action": action, "reason": reason}
    if watch_s is not None:
        conf["watch_s"] = watch_s
    with connect(settings, os.environ) as airflow:
        page = request(airflow, settings, stream, conf)
        console.print(page.address, highlight=False, soft_wrap=True)
        if not wait:
            return
        with Steps(console) as steps:
            failed = watch(airflow, page, action, steps.report, lambda: time.sleep(POLL_S))
    if failed:
        raise ActionError(f"stream {stream}: {failed}")


def connect(settings: Settings, environ: Mapping[str, str]) -> AirflowApi:
    """Log in to Airflow: by a token, by name and password, or as the embedded platform's administrator.

    Raises:
        ActionError: None of them is known.
        AirflowApiError: Airflow refuses, or does not answer.
    """
    if token := environ.get(ENV_AIRFLOW_TOKEN):
        return AirflowApi(settings.airflow_url, token=token)
    if user := environ.get(ENV_AIRFLOW_USER):
        return AirflowApi(settings.airflow_url, user, environ.get(ENV_AIRFLOW_PASSWORD, ""))
    home = Layout.of(settings).airflow_home
    if (home / "secrets.json").exists():
        return AirflowApi(settings.airflow_url, ADMIN, Secrets.load_or_create(home).admin_password)
    raise ActionError(
        f"expected a login for Airflow at {settings.airflow_url}, found none. Set {ENV_AIRFLOW_TOKEN}, or"
        f" {ENV_AIRFLOW_USER} and {ENV_AIRFLOW_PASSWORD}; or start the embedded platform with `stateward up`."
    )


@dataclass(frozen=True)
class Run:
    """A run of a stream's DAG.

    Attributes:
        address: Its page in Airflow.
    """

    dag_id: str
    run_id: str
    address: str


def request(airflow: Airflow, settings: Settings, stream: str, conf: dict[str, Any]) -> Run:
    """Trigger the stream's DAG.

    Args:
        airflow: Airflow's API.
        settings: Airflow's address, and the prefix of DAGs.
        stream: The stream.
        conf: The form.

    Raises:
        ActionError: There is no such DAG, or it is paused, so that its runs would wait.
        AirflowApiError: Airflow refuses.
    """
    dag_id, url = settings.dag_id(f"stream_{stream}"), settings.airflow_url
    if not airflow.has_dag(dag_id):
        raise ActionError(
            f"stream {stream}: expected the DAG {dag_id} in Airflow at {url}, found none."
            " `stateward status` lists the streams; a new YAML is parsed within a minute."
        )
    if airflow.is_paused(dag_id):
        raise ActionError(
            f"stream {stream}: expected the DAG {dag_id} to be active, found it paused. Unpause it at"
            f" {public(url, dag(dag_id))}."
        )
    run_id = airflow.trigger(dag_id, conf)
    return Run(dag_id, run_id, public(url, dag_run(dag_id, run_id)))


def watch(
    airflow: Airflow, run: Run, action: Action, report: Callable[[str, str], None], pause: Callable[[], None]
) -> str:
    """Report the states of the tasks until the action is done.

    The last task, `supervise`, lasts as long as the stream; it is not waited for.

    Returns:
        Empty when it is done; else which task has failed, and where its log is.
    """
    tasks = _TASKS.get(action, ("deploy",))
    while True:
        states = airflow.task_states(run.dag_id, run.run_id)
        for task in tasks:
            state = states.get(task) or "waiting"
            report(task, READY if state in _DONE else state)
            if state in _FAILED:
                return f"expected {action} to succeed, found the task {task} {state}. Log: {run.address}"
        if all(states.get(task) in _DONE for task in tasks):
            return ""
        pause()
