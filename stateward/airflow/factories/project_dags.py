"""All DAGs of a project, for the one file of two lines that Airflow reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from pkgutil import resolve_name

from airflow.sdk import DAG, get_parsing_context

from stateward.airflow.storage_connection import use_storage
from stateward.contract.names import ENV_DAG_PREFIX, ENV_PROJECT
from stateward.control.reconcile.started_streams import started_specs
from stateward.project.settings import Settings, is_project

_HERE = __package__
# By the beginning of the names of their DAGs.
_FACTORIES = {
    "stream_": "streams:stream_dags",
    "state_operations": "state_operations:state_operation_dags",
    "state_inspection": "state_operations:state_operation_dags",
}
# These take the streams that were started, which the storage is asked for once.
_OF_STARTED = {
    "quality_": "quality:quality_dags",
    "reconcile_": "reconciliation:reconciliation_dags",
    "state_": "state_care:state_care_dags",
    "export_": "state_exports:state_export_dags",
    "maintenance": "maintenance:maintenance_dags",
}


class ProjectError(ValueError):
    """The file of the DAGs and the settings do not name one project."""


def project_dags(project: Path | None, prefix: str | None) -> dict[str, DAG]:
    """Build the DAGs of a project, by their ids.

    Airflow parses the file again for each task, and names the DAG of the task: only the factories that can
    make it are called then.

    Args:
        project: The folder; that of the settings if it is not given.
        prefix: See `Settings.dag_prefix`; that of the settings if it is not given.

    Raises:
        ProjectError: The folder is no project, or the settings name another folder or prefix.
    """
    use_project(project, prefix)
    settings, dag_id = Settings(), get_parsing_context().dag_id
    name = dag_id.removeprefix(settings.dag_prefix) if dag_id else ""
    dags: dict[str, DAG] = {}
    for factory in _factories(_FACTORIES, name):
        dags |= factory()
    if of_started := _factories(_OF_STARTED, name):
        started = started_specs(settings)
        for factory in of_started:
            dags |= factory(started)
    return dags


def use_project(project: Path | None, prefix: str | None = None) -> None:
    """Let this process, and those that it starts, work on a project.

    Raises:
        ProjectError: The folder is no project, or the settings name another folder or prefix.
        StorageConnectionError: See `use_storage`.
    """
    settings = Settings()
    if project is not None:
        if not is_project(project):
            raise ProjectError(
                f"expected a project, with the folder include/streams, in {project}, found none. Name the"
                " folder in which `stateward init` has made it."
            )
        # Links are followed: the same folder may have two names.
        _set(ENV_PROJECT, "project", settings, str(project), str(settings.project.resolve()))
    if prefix is not None:
        _set(ENV_DAG_PREFIX, "dag_prefix", settings, prefix, settings.dag_prefix)
    use_storage(settings)


def _set(variable: str, name: str, settings: Settings, value: str, known: str) -> None:
    """Set a variable of the environment, unless the settings say the same."""
    if name not in settings.model_fields_set:
        os.environ[variable] = value
    elif known != value:
        raise ProjectError(
            f"expected one {name}, found {value!r} in the file of the DAGs and {known!r} in the settings."
            f" An Airflow has one project: let {variable}, or the option {name} of [stateward], say the same."
        )


def _factories(known: Mapping[str, str], name: str) -> list[Callable[..., dict[str, DAG]]]:
    """Return the factories that can make the DAG of a name; all of them for none."""
    wanted = [path for begin, path in known.items() if not name or name.startswith(begin)]
    return [resolve_name(f"{_HERE}.{path}") for path in dict.fromkeys(wanted)]
