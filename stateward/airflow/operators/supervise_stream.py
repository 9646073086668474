"""The task that keeps a stream in its desired state while its DAG run is active."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from stateward.airflow.compat import AirflowFailException, AirflowSkipException
from stateward.airflow.notifiers.dispatcher import Dispatcher, Remaining
from stateward.airflow.operators.deploy_stream import controller_of, dag_run_of
from stateward.airflow.operators.incident_reporting import become_supervisor, deliver
from stateward.airflow.triggers.stream_progress import StreamProgressTrigger
from stateward.alerts.incident_document import CarriedIncidents, carried_from_json
from stateward.contract.reading import format_time
from stateward.control.reconcile.decide import Done, GiveUp, Healthy
from stateward.control.reconcile.executor import Controller, log_tail
from stateward.control.reconcile.leader_heartbeat import release
from stateward.control.reconcile.observe import read_control
from stateward.control.reconcile.reconcile_loop import NOTHING_DUE, settle
from stateward.control.reconcile.spec_watcher import digest_of
from stateward.control.reconcile.watch_clock import WatchClock
from stateward.project.settings import Settings

if TYPE_CHECKING:
    from airflow.sdk import Context


class SuperviseStreamOperator(BaseOperator):
    """Restarts the driver when it fails, and is deferred while there is nothing to do.

    One DAG run supervises a stream. A second one succeeds and names the first, or takes over when the first
    has sent no heartbeat for half a minute. There is no `on_kill`: the end of this task never stops the
    stream.

    Args:
        stream: The stream's name, which is that of its YAML.
        poll_s: Time between two observations of this task and of its trigger, seconds.
    """

    def __init__(self, *, stream: str, poll_s: float = 2.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.poll_s = poll_s

    def execute(self, context: Context) -> str:
        """Become the supervisor, and continue as in `resume`."""
        dispatcher = Dispatcher(self.stream, dag_run_of(context), context, Settings())
        if context["params"]["action"] in ("stop", "suspend", "remove"):
            self._end_incidents(dispatcher)
            raise AirflowSkipException(f"stream {self.stream} is at rest; there is nothing to supervise")
        dispatcher.check()
        clock = WatchClock()
        if context["ti"].try_number > 1:
            # The try before may have failed for the storage, so the driver could not be heard either.
            clock.fail(datetime.now(UTC))
        return self._supervise(dispatcher, clock, carried=None)

    def resume(self, context: Context, event: dict[str, Any]) -> str:
        """Carry out the action that is due, report it, and watch again.

        Args:
            context: The task's context.
            event: See `Watch.look`.

        Returns:
            Why supervision has ended.

        Raises:
            TaskDeferred: The stream is healthy; the trigger watches again.
            AirflowFailException: The driver keeps failing.
        """
        self.log.info("The trigger fired: %s (%s)", event["event"], event["reason"])
        return self._supervise(
            Dispatcher(self.stream, dag_run_of(context), context, Settings()),
            WatchClock.resumed(event.get("watched")),
            carried=carried_from_json(event.get("incidents")),
        )

    def _supervise(self, dispatcher: Dispatcher, clock: WatchClock, carried: CarriedIncidents | None) -> str:
        # Computed before the YAML is read, so that the trigger notices every later edit.
        yaml = digest_of(self.stream, Settings().streams)
        controller = controller_of(self.stream)
        other = become_supervisor(dispatcher, self.poll_s)
        if other is not None:
            said = f"{other.dag_run} supervises stream {self.stream}, last seen {other.at:%H:%M:%S} UTC"
            self.log.info(said)
            return said
        action = settle(controller, lambda: time.sleep(self.poll_s), NOTHING_DUE, clock)
        # Delivered after the action, so that a slow notifier does not delay the driver.
        left = deliver(dispatcher, action, carried)
        if left.to_send or not isinstance(action, Done | GiveUp):
            for warning in action.warnings if isinstance(action, Healthy) else ():
                self.log.warning("stream %s: %s", self.stream, warning)
            self._watch(controller, dispatcher.dag_run, left, yaml)
        self.log.info("Nothing more to supervise: %s", action.reason)
        release(controller.layout, self.stream, dispatcher.dag_run)
        if isinstance(action, GiveUp):
            tail = log_tail(controller.layout, read_control(controller.layout, self.stream))
            raise AirflowFailException(f"stream {self.stream}: {action.reason}\n{tail}")
        return action.reason

    def _end_incidents(self, dispatcher: Dispatcher) -> None:
        """Report that the incidents of a stopped stream are resolved, unless it has another supervisor."""
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
