"""The task that keeps a stream in its desired state for as long as its DAG run lives."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from stateward.airflow.notifiers.dispatcher import Dispatcher, Remaining
from stateward.airflow.operators.deploy_stream import controller_of, dag_run_of
from stateward.airflow.operators.incident_reporting import become_supervisor, deliver
from stateward.airflow.triggers.stream_progress import StreamProgressTrigger
from stateward.alerts.incident_document import CarriedIncidents, carried_from_json
from stateward.control.reconcile.decide import Done, GiveUp, Healthy
from stateward.control.reconcile.documents import format_time, parse_time
from stateward.control.reconcile.executor import Controller, log_tail
from stateward.control.reconcile.leader_heartbeat import release
from stateward.control.reconcile.observe import read_control
from stateward.control.reconcile.reconcile_loop import NOTHING_DUE, settle
from stateward.control.reconcile.spec_watcher import digest_of
from stateward.project.settings import Settings

if TYPE_CHECKING:
    from airflow.sdk import Context


class SuperviseStreamOperator(BaseOperator):
    """Restarts the driver when it fails, and sleeps in a trigger while there is nothing to do.

    One DAG run supervises a stream. A second one finds that out and succeeds, naming the first; it
    takes over when the first has given no sign for half a minute. There is no `on_kill`: whatever
    ends this task leaves the stream as it is.

    Args:
        stream: The stream's name, which is that of its YAML.
        poll_s: Time between two looks, in seconds, of this task and of its trigger.
    """

    def __init__(self, *, stream: str, poll_s: float = 2.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.poll_s = poll_s

    def execute(self, context: Context) -> str:
        """Become the supervisor, and go on as in `resume`."""
        dispatcher = Dispatcher(self.stream, dag_run_of(context), context, Settings())
        if context["params"]["action"] in ("stop", "suspend"):
            self._end_incidents(dispatcher)
            raise AirflowSkipException(f"stream {self.stream} is at rest; there is nothing to supervise")
        dispatcher.check()
        return self._supervise(dispatcher, stalled_since=None, carried=None)

    def resume(self, context: Context, event: dict[str, Any]) -> str:
        """Do what the trigger found to be due, tell of it, then watch on.

        Args:
            context: Airflow's.
            event: See `Watch.look`.

        Returns:
            Why there is nothing more to supervise.

        Raises:
            TaskDeferred: The stream is healthy; the trigger watches on.
            AirflowFailException: The driver keeps failing.
        """
        self.log.info("The trigger fired: %s (%s)", event["event"], event["reason"])
        since = event.get("stalled_since")
        return self._supervise(
            Dispatcher(self.stream, dag_run_of(context), context, Settings()),
            stalled_since=parse_time(since) if since else None,
            carried=carried_from_json(event.get("incidents")),
        )

    def _supervise(
        self, dispatcher: Dispatcher, stalled_since: datetime | None, carried: CarriedIncidents | None
    ) -> str:
        # Before it is read: an edit from here on is seen by the trigger, even by one that begins much later.
        yaml = digest_of(self.stream, Settings().streams)
        controller = controller_of(self.stream)
        other = become_supervisor(dispatcher, self.poll_s)
        if other is not None:
            said = f"{other.dag_run} supervises stream {self.stream}, last seen {other.at:%H:%M:%S} UTC"
            self.log.info(said)
            return said
        action = settle(controller, lambda: time.sleep(self.poll_s), NOTHING_DUE, stalled_since)
        # What had to be done is done: however long a notifier takes, the driver does not wait for it.
        left = deliver(dispatcher, action, carried)
        if left.to_send or not isinstance(action, Done | GiveUp):
            for warning in action.warnings if isinstance(action, Healthy) else ():
                self.log.warning("stream %s: %s", self.stream, warning)
            self._watch(controller, dispatcher.dag_run, left, yaml)
        self.log.info("Nothing more to supervise: %s", action.reason)
        release(controller.layout, self.stream, dispatcher.dag_run)
        if isinstance(action, GiveUp):
            tail = log_tail(read_control(controller.layout, self.stream))
            raise AirflowFailException(f"stream {self.stream}: {action.reason}\n{tail}")
        return action.reason

    def _end_incidents(self, dispatcher: Dispatcher) -> None:
        """Tell that the incidents of a stopped stream are over, if nobody supervises who would."""
        control = read_control(dispatcher.layout, self.stream)
        if control is None or control.desired == "running" or not dispatcher.has_something():
            return
        if become_supervisor(dispatcher, self.poll_s) is not None:
            return
        deliver(dispatcher, Done("it was stopped on purpose"))
        release(dispatcher.layout, self.stream, dispatcher.dag_run)

    def _watch(self, controller: Controller, dag_run: str, left: Remaining, yaml: str) -> None:
        self.defer(
            trigger=StreamProgressTrigger(
                stream=self.stream,
                dag_run=dag_run,
                limits=controller.limits.to_json(),
                poll_s=self.poll_s,
                alerts_from=format_time(left.not_before) if left.not_before else None,
                yaml=yaml,
            ),
            method_name="resume",
        )
