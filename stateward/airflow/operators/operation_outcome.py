"""The last task of a state operation: it succeeds or fails as the operation did, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from stateward.airflow.operators.operation_params import REASON, Asked, asked_of, failed

if TYPE_CHECKING:
    from airflow.sdk import Context

_BAD = ("failed", "upstream_failed")


class OperationOutcomeOperator(BaseOperator):
    """Fails when a task of the run has failed, although the stream was started again after it.

    Args:
        asks: Fixed parameters, in place of those of the form.
        judged: The tasks that have to succeed or be skipped.
        restored_by: The task that restores the checkpoint and the tables.
        way_back: The last task of the rollback.
    """

    def __init__(
        self,
        *,
        asks: Mapping[str, Any] | None = None,
        judged: list[str],
        restored_by: str,
        way_back: str,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.asks = asks
        self.judged = judged
        self.restored_by = restored_by
        self.way_back = way_back

    def execute(self, context: Context) -> str:
        """Check the other tasks.

        Returns:
            The outcome.

        Raises:
            AirflowFailException: A task has failed.
        """
        asked, ti = asked_of(context, self.asks), context["ti"]
        states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[ti.run_id]).get(ti.run_id, {})
        bad = [task for task in self.judged if states.get(task) in _BAD]
        if not bad:
            return f"{asked.verb.name} of {asked.stream} is done"
        reasons = {task: ti.xcom_pull(task_ids=task, key=REASON) for task in bad}
        known = [f"{task}: {reason}" for task, reason in reasons.items() if reason]
        words = " | ".join(known) or f"{', '.join(bad)} failed; its log says why"
        raise failed(context, f"{words}{self._back(context, states, asked)}")

    def _back(self, context: Context, states: Mapping[str, str], asked: Asked) -> str:
        if states.get(self.way_back) == "success":
            return f" | Stream {asked.stream} went back to the savepoint made before, and runs."
        if states.get(self.way_back) not in _BAD:
            return ""
        if states.get(self.restored_by) != "success":
            return f" | Stream {asked.stream} could not be brought back: look at {self.way_back}."
        reason = context["ti"].xcom_pull(task_ids=self.way_back, key=REASON)
        return (
            f" | Stream {asked.stream} went back to the savepoint made before, and does not run "
            f"({reason or f'look at {self.way_back}'}). If this release cannot read that state, deploy the "
            "one that wrote it, and start the stream."
        )
