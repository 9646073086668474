"""What differs between the versions of Airflow that are supported.

A task's exceptions and two timetables moved into the Task SDK with Airflow 3.2. The provider
`common.compat` has them too, but not the version that came with Airflow 3.1.0.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.providers.standard.operators.hitl import HITLOperator
    from airflow.sdk import AssetOrTimeSchedule, CronTriggerTimetable
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
        AirflowTaskTimeout,
    )
else:
    try:
        from airflow.sdk import AssetOrTimeSchedule, CronTriggerTimetable
        from airflow.sdk.exceptions import (
            AirflowException,
            AirflowFailException,
            AirflowNotFoundException,
            AirflowSkipException,
            AirflowTaskTimeout,
        )
    except ImportError:
        from airflow.exceptions import (
            AirflowException,
            AirflowFailException,
            AirflowNotFoundException,
            AirflowSkipException,
            AirflowTaskTimeout,
        )
        from airflow.timetables.assets import AssetOrTimeSchedule
        from airflow.timetables.trigger import CronTriggerTimetable

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSkipException",
    "AirflowTaskTimeout",
    "AssetOrTimeSchedule",
    "CronTriggerTimetable",
    "is_paused",
    "limit_response",
]


def is_paused(task: Any, dag_id: str) -> bool:
    """Whether a DAG is paused; False with Airflow 3.1, where a running task cannot ask."""
    ask = getattr(task, "get_dag", None)
    return ask is not None and bool(ask(dag_id).is_paused)


def limit_response(operator: HITLOperator, left: timedelta) -> None:
    """Set how long a person may take to answer, before the operator is deferred."""
    # Older ones of the standard provider count from the execution timeout, newer ones refuse it.
    name = "response_timeout" if hasattr(operator, "response_timeout") else "execution_timeout"
    setattr(operator, name, left)
