"""DAG factories, operators, triggers, notifiers and plugins: the only package that imports airflow."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from airflow.sdk import DAG


def dags(project: str | os.PathLike[str] | None = None, *, prefix: str | None = None) -> dict[str, DAG]:
    """Build all DAGs of a project, by their ids: `globals().update(dags("/path/to/project"))` in a DAG file.

    Args:
        project: The project's folder; a relative path starts from the folder of the calling file. Without it
            that of the setting `project`.
        prefix: What the ids begin with, in place of the setting `dag_prefix`.

    Raises:
        ProjectError: The folder is no project, or the settings name another folder or prefix.
    """
    from stateward.airflow.factories.project_dags import project_dags

    return project_dags(_absolute(project), prefix)


def check_streams(project: str | os.PathLike[str] | None = None) -> None:
    """Raise while a YAML in include/streams is invalid, so that Airflow shows a DAG import error.

    An import error hides every DAG of its file, so the check needs a DAG file of its own.

    Args:
        project: As of `dags`.

    Raises:
        SpecError: With the problems of all files.
    """
    from stateward.airflow.factories.project_dags import use_project
    from stateward.airflow.factories.streams import require_valid_streams

    use_project(_absolute(project))
    require_valid_streams()


def _absolute(project: str | os.PathLike[str] | None) -> Path | None:
    if project is None:
        return None
    # The caller of the caller is the DAG file, wherever Airflow was started.
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None and frame.f_back.f_back is not None
    file = frame.f_back.f_back.f_globals.get("__file__", "")
    return Path(file).absolute().parent.joinpath(Path(project).expanduser()).resolve()
