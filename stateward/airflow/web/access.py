"""Access to pages, by the DAGs that Airflow's auth manager lets a user read."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from stateward.pages.access import MayRead

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser


def may_read(user: BaseUser) -> MayRead:
    """Return which DAGs a user may read. Call it in a thread: Airflow may query its database."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
    from airflow.models.dag import DagModel

    @functools.cache
    def readable(dag_id: str) -> bool:
        details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
        return get_auth_manager().is_authorized_dag(method="GET", details=details, user=user)

    return readable


def require(readable: MayRead, dag_ids: Iterable[str]) -> None:
    """Refuse a page to a user who may not read all of its DAGs.

    Raises:
        HTTPException: 403, naming the missing DAGs.
    """
    from fastapi import HTTPException

    if missing := [dag_id for dag_id in dag_ids if not readable(dag_id)]:
        reason = f"This page is for those who may read the DAG {' and the DAG '.join(missing)}."
        raise HTTPException(403, f"{reason} An administrator of Airflow can grant that.")
