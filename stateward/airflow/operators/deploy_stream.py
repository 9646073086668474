"""The task that brings a stream to its desired state."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from stateward.airflow.compat import AirflowFailException, AirflowSkipException
from stateward.airflow.kafka_connection import with_kafka
from stateward.airflow.notifiers.dispatcher import Dispatcher
from stateward.airflow.operators.incident_reporting import report_last
from stateward.airflow.spark_submit import build_command
from stateward.contract.reading import InvalidDocumentError
from stateward.control.launchers.driver_process import LaunchError
from stateward.control.launchers.launch import SparkLauncher
from stateward.control.reconcile.decide import GiveUp
from stateward.control.reconcile.desired_state import Wish, WishError
from stateward.control.reconcile.effective_spec import spec_in_force
from stateward.control.reconcile.executor import Controller, log_tail
from stateward.control.reconcile.observe import read_control
from stateward.control.reconcile.reconcile_loop import REACHED, settle
from stateward.project.settings import Settings
from stateward.project.spec import SpecError, load_spec

if TYPE_CHECKING:
    from airflow.sdk import Context


def controller_of(stream: str, *, current_spec: bool = False) -> Controller:
    """Create a stream's controller with this process's settings and `spark-submit`.

    Args:
        stream: The stream's name.
        current_spec: Whether to use the current YAML; otherwise the one of the last launch is enough.

    Raises:
        SpecError: The stream's YAML is missing or invalid, and the current one is required, or there is none
            of an earlier launch.
        InvalidDocumentError: The control document cannot be read.
    """
    settings = Settings()
    spec = load_spec(stream, settings.streams) if current_spec else spec_in_force(stream, settings)
    return Controller(spec, settings, SparkLauncher(spec, settings, build_command, with_kafka))


def dag_run_of(context: Context) -> str:
    """Name the DAG run of a task, `<dag id>/<run id>`."""
    run = context["dag_run"]
    return f"{run.dag_id}/{run.run_id}"


def author_of(context: Context) -> str:
    """Name the person who triggered a DAG run; the run itself if Airflow does not know them."""
    # Missing in the type that tasks see, though the API server sends it.
    return getattr(context["dag_run"], "triggering_user_name", None) or dag_run_of(context)


def wish_of(context: Context, now: datetime) -> Wish:
    """Read the form of a stream's DAG."""
    params = context["params"]
    reason = (params.get("reason") or "").strip()
    return Wish(params["action"], dag_run_of(context), author_of(context), reason, now)


class DeployStreamOperator(BaseOperator):
    """Carries out the parameter `action`; see `stateward.control.reconcile.desired_state.Wish`.

    It ends when the stream runs, or is drained. `run` returns at once when a healthy driver runs. The driver
    is started detached, and survives the task.

    Args:
        stream: The stream's name, which is that of its YAML.
        poll_s: Time between two observations, seconds.
    """

    def __init__(self, *, stream: str, poll_s: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.poll_s = poll_s

    def execute(self, context: Context) -> str:
        """Request the state, and wait for it.

        Returns:
            The state that was reached, as text.

        Raises:
            AirflowSkipException: The action is `upgrade` or `remove`, which another task carries out.
            AirflowFailException: The YAML is invalid, the driver cannot be submitted, or it keeps
                failing; the message holds the end of its log.
        """
        if context["params"]["action"] in ("upgrade", "remove"):
            raise AirflowSkipException(f"stream {self.stream}: there is nothing to deploy")
        wish = wish_of(context, datetime.now(UTC))
        try:
            # Checked before the driver is drained.
            controller = controller_of(self.stream, current_spec=wish.action not in ("stop", "suspend"))
            if wish.action in ("run", "resume"):
                controller.start_afresh(wish.by)
            controller.request(wish)
            reached = settle(controller, pause=lambda: time.sleep(self.poll_s), until=REACHED)
        except (SpecError, LaunchError, InvalidDocumentError, WishError) as error:
            # Airflow's retries would meet the same error again.
            raise AirflowFailException(str(error)) from error
        control = read_control(controller.layout, self.stream)
        if isinstance(reached, GiveUp):
            # The supervising task will not run, and a program may have triggered this run.
            report_last(Dispatcher(self.stream, wish.by, context, controller.settings), reached, self.poll_s)
            raise AirflowFailException(
                f"stream {self.stream}: {reached.reason}\n{log_tail(controller.layout, control)}"
            )
        if control and control.launch:
            self.log.info("Driver %s, log %s", control.launch.run_id, control.launch.log_address)
        return reached.reason
