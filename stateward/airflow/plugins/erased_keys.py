"""Erases keys that were forgotten from Airflow's database, at the end of the run (docs/forget.md)."""

import sys
from typing import Any

from airflow.listeners import hookimpl
from airflow.plugins_manager import AirflowPlugin

from stateward.airflow.erased_keys import erase_keys


@hookimpl
def on_dag_run_success(dag_run: Any, msg: str) -> None:
    """Erase the key of a run that has succeeded."""
    erase_keys(dag_run)


@hookimpl
def on_dag_run_failed(dag_run: Any, msg: str) -> None:
    """Erase the key of a run that has failed: to try again, it is asked for again."""
    erase_keys(dag_run)


class ErasedKeysPlugin(AirflowPlugin):
    """Registers the listener."""

    name = "stateward_erased_keys"
    listeners = [sys.modules[__name__]]  # noqa: RUF012
