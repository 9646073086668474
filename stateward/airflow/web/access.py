"""Access to pages, by the DAGs that Airflow's auth manager lets a user read."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from stateward.pages.access import MayRead
from stateward.project.settings import Settings

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser


def may_read(user: BaseUser) -> MayRead:
    """Return which DAGs a user may read, by their names without the prefix.

    Call it in a thread: Airflow may query its database.
    """
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
    from airflow.models.dag import DagModel

    settings = Settings()

    @functools.cache
    def readable(name: str) -> bool:
        dag_id = settings.dag_id(name)
        details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
        return get_auth_manager().is_authorized_dag(method="GET", details=details, user=user)

    return readable


def require_operator(user: BaseUser, name: str) -> None:
    """Refuse a change to a user who may not trigger a DAG.

    Args:
        user: Who asks.
        name: The DAG's name without the prefix.

    Raises:
        HTTPException: 403, naming the DAG.
    """
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
    from airflow.models.dag import DagModel
    from fastapi import HTTPException

    dag_id = Settings().dag_id(name)
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    if not get_auth_manager().is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, details=details, user=user
    ):
        raise HTTPException(403, f"This is for those who may trigger the DAG {dag_id}.")


def require(readable: MayRead, dag_ids: Iterable[str]) -> None:
    """Refuse a page to a user who may not read all of its DAGs.

    Raises:
        HTTPException: 403, naming the missing DAGs.
    """
    from fastapi import HTTPException

    if missing := [Settings().dag_id(name) for name in dag_ids if not readable(name)]:
        reason = f"This page is for those who may read the DAG {' and the DAG '.join(missing)}."
        raise HTTPException(403, f"{reason} An administrator of Airflow can grant that.")
