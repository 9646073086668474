"""The task that upgrades a stream by a run of the DAG `state_operations`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator

from stateward.airflow.compat import AirflowSkipException
from stateward.control.jobs.verbs import CHANGING_DAG
from stateward.project.settings import Settings

if TYPE_CHECKING:
    from airflow.sdk import Context


class UpgradeStreamOperator(TriggerDagRunOperator):
    """Triggers an upgrade and waits for its end, deferred; skipped for other actions.

    It fails when the upgrade has failed and was rolled back.

    Args:
        stream: The stream's name.
    """

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(
            trigger_dag_id=Settings().dag_id(CHANGING_DAG),
            wait_for_completion=True,
            deferrable=True,
            poke_interval=5,
            **kwargs,
        )
        self.stream = stream

    def execute(self, context: Context) -> None:
        """Trigger the upgrade.

        Raises:
            AirflowSkipException: The action is another one.
            TaskDeferred: The upgrade has not ended yet.
        """
        params = context["params"]
        if params["action"] != "upgrade":
            raise AirflowSkipException("no upgrade was asked for")
        self.conf = {
            "verb": "upgrade",
            "stream": self.stream,
            "dry_run": False,
            "watch_s": int(params["watch_s"]),
        }
        super().execute(context)
