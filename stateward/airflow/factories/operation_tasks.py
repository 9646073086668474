"""The tasks of a state operation, from the running stream to the running stream.

    check >> drain >> savepoint >> operate >> start >> watch
    watch >> go_back (drain >> restore >> start >> watch) >> outcome

`start` runs whether the operation succeeded or not. `go_back` runs when the stream does not commit a batch
after the operation, and the operation can be undone. Tasks that are not needed are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import TaskGroup

from stateward.airflow.operators.hold_stream import (
    DrainForOperationOperator,
    StartAfterOperationOperator,
    WatchComebackOperator,
)
from stateward.airflow.operators.operation_outcome import OperationOutcomeOperator
from stateward.airflow.operators.state_operation import (
    CheckBeforeOperator,
    GoBackOperator,
    SavepointBeforeOperator,
    StateOperationOperator,
)

BACK = "go_back"

# A retry is for a killed worker; errors that persist fail without one. The delay is longer than a lease, so
# that a lease left behind on another machine has expired.
_AGAIN: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(seconds=30)}
_AGAIN_SOON: dict[str, Any] = {"retries": 10, "retry_delay": timedelta(seconds=5)}


def operation_tasks(
    asks: Mapping[str, Any] | None = None,
) -> tuple[CheckBeforeOperator, OperationOutcomeOperator]:
    """Add the tasks to the current DAG.

    Args:
        asks: Fixed parameters, in place of those of the form.

    Returns:
        The first task and the last.
    """
    check = CheckBeforeOperator(task_id="check", asks=asks, **_AGAIN)
    drain = DrainForOperationOperator(task_id="drain", asks=asks, trigger_rule="none_failed", **_AGAIN_SOON)
    savepoint = SavepointBeforeOperator(task_id="savepoint", asks=asks, trigger_rule="none_failed", **_AGAIN)
    operate = StateOperationOperator(task_id="operate", asks=asks, trigger_rule="none_failed", **_AGAIN)
    start = StartAfterOperationOperator(
        task_id="start", asks=asks, drained_by="drain", trigger_rule="all_done", **_AGAIN_SOON
    )
    watch = WatchComebackOperator(task_id="watch", asks=asks, started_by="start", **_AGAIN_SOON)
    check >> drain >> savepoint >> operate >> start >> watch
    operate >> watch
    back = _way_back(asks)
    outcome = OperationOutcomeOperator(
        task_id="outcome",
        asks=asks,
        judged=[task.task_id for task in (check, drain, savepoint, operate, start, watch)],
        restored_by=f"{BACK}.restore",
        way_back=f"{BACK}.watch",
        trigger_rule="all_done",
        **_AGAIN_SOON,
    )
    watch >> back >> outcome
    return check, outcome


def _way_back(asks: Mapping[str, Any] | None) -> TaskGroup:
    with TaskGroup(BACK) as group:
        # Also runs when `start` has failed; when `operate` has, there is nothing to undo.
        drain = DrainForOperationOperator(
            task_id="drain", asks=asks, to_go_back=True, trigger_rule="one_failed", **_AGAIN_SOON
        )
        restore = GoBackOperator(task_id="restore", asks=asks, **_AGAIN)
        start = StartAfterOperationOperator(
            task_id="start",
            asks=asks,
            drained_by=f"{BACK}.drain",
            is_way_back=True,
            trigger_rule="all_done",
            **_AGAIN_SOON,
        )
        watch = WatchComebackOperator(
            task_id="watch", asks=asks, started_by=f"{BACK}.start", is_way_back=True, **_AGAIN_SOON
        )
        drain >> restore >> start >> watch
        restore >> watch
    return group
