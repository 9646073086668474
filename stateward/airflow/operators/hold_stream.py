"""The tasks that stop a stream for a state operation, start it again, and wait for its first batch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from stateward.airflow.compat import AirflowSkipException
from stateward.airflow.operators.deploy_stream import controller_of
from stateward.airflow.operators.operation_params import CANNOT, Asked, asked_of, failed
from stateward.airflow.triggers.stream_turn import StreamBackTrigger, StreamDrainedTrigger
from stateward.contract.reading import format_time, parse_time
from stateward.control.reconcile.decide import Done, Held
from stateward.control.reconcile.executor import Controller, log_tail
from stateward.control.reconcile.maintenance_hold import hold, launched_release, release_hold
from stateward.control.reconcile.observe import observe, read_control
from stateward.control.reconcile.reconcile_loop import NOTHING_DUE, settle
from stateward.control.reconcile.startup_probe import Watch, comeback
from stateward.control.reconcile.watch_clock import WatchClock

if TYPE_CHECKING:
    from airflow.sdk import Context


RELEASE = "release"
"""XCom key of the release that the stream ran with."""


class _OperationTask(BaseOperator):
    """A task of a state operation.

    Args:
        asks: Fixed parameters, in place of those of the form.
        poll_s: Time between two observations, seconds.
    """

    def __init__(self, *, asks: Mapping[str, Any] | None = None, poll_s: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.asks = asks
        self.poll_s = poll_s

    def _pause(self) -> None:
        time.sleep(self.poll_s)


class DrainForOperationOperator(_OperationTask):
    """Holds the stream stopped, and waits until it is drained; its desired state does not change.

    Skipped when the stream need not stop. A retry finds its own hold and continues.

    Args:
        to_go_back: Whether to stop only for an operation that has changed something and is to be undone.
    """

    def __init__(self, *, to_go_back: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.to_go_back = to_go_back

    def execute(self, context: Context) -> str:
        """Hold the stream, and continue as in `resume`.

        Raises:
            AirflowSkipException: The stream need not stop.
            AirflowFailException: A field is wrong, or another operation holds the stream.
        """
        asked = asked_of(context, self.asks)
        if not asked.stops_stream:
            raise AirflowSkipException(f"{asked.verb.name} leaves the stream alone")
        if self.to_go_back and asked.has_changed is None:
            raise AirflowSkipException("there is nothing to take back")
        try:
            asked.check()
            controller = controller_of(asked.stream)
            other = hold(controller.layout, asked.stream, asked.run, asked.verb.name, datetime.now(UTC))
            if other is not None:
                raise failed(context, _taken(asked, str(other)))
            context["ti"].xcom_push(RELEASE, launched_release(controller.layout, asked.stream))
            return self._drain(context, asked, controller)
        except CANNOT as error:
            raise failed(context, str(error)) from error

    def resume(self, context: Context, event: dict[str, Any]) -> str:
        """Kill a driver that has not drained in time; otherwise keep waiting.

        Args:
            context: The task's context.
            event: The trigger's event.

        Returns:
            The state that was reached, as text.

        Raises:
            TaskDeferred: The driver still drains.
            AirflowFailException: A person or another run has ended the hold.
        """
        self.log.info("The trigger fired: %s", event["reason"])
        asked = asked_of(context, self.asks)
        return self._drain(
            context, asked, controller_of(asked.stream), WatchClock.resumed(event.get("watched"))
        )

    def _drain(
        self, context: Context, asked: Asked, controller: Controller, clock: WatchClock | None = None
    ) -> str:
        control = read_control(controller.layout, asked.stream)
        mark = control.hold if control else None
        if control is not None and (mark is None or mark.by != asked.run):
            raise failed(context, f"stream {asked.stream}: {control.requested_by} has ended the hold")
        action = settle(controller, self._pause, NOTHING_DUE, clock)
        if not isinstance(action, Held | Done):
            limits = controller.limits.to_json()
            self.defer(trigger=StreamDrainedTrigger(asked.stream, limits, self.poll_s), method_name="resume")
        return f"stream {asked.stream} does not run: {action.reason}"


def _taken(asked: Asked, mark: str) -> str:
    return (
        f"stream {asked.stream}: expected no other operation on its state, found that it is {mark}. Wait for "
        f"its end; if that run is gone, trigger stream_{asked.stream} with the action restart."
    )


class StartAfterOperationOperator(_OperationTask):
    """Ends the hold, also after a failed operation, and starts a stream that should run.

    Args:
        drained_by: The task that stopped it.
        is_way_back: Whether to start the release that ran before the operation.
    """

    def __init__(self, *, drained_by: str, is_way_back: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.drained_by = drained_by
        self.is_way_back = is_way_back

    def execute(self, context: Context) -> str:
        """Start the stream as it was.

        Returns:
            The time of the start, ISO 8601; a batch after it shows that the stream runs.

        Raises:
            AirflowSkipException: The stream was not stopped, or did not run before.
            AirflowFailException: The driver cannot be submitted.
        """
        asked = asked_of(context, self.asks)
        try:
            controller = controller_of(asked.stream)
            now = datetime.now(UTC)
            # An earlier try may have ended the hold and died.
            was_held = context["ti"].xcom_pull(task_ids=self.drained_by) is not None
            release = self._release(context, asked, controller)
            if not (release_hold(controller.layout, asked.stream, asked.run, release) or was_held):
                raise AirflowSkipException("the stream was not stopped")
            action = settle(controller, self._pause, NOTHING_DUE)
        except CANNOT as error:
            raise failed(context, str(error)) from error
        if isinstance(action, Done):
            raise AirflowSkipException(f"stream {asked.stream} did not run before: {action.reason}")
        self.log.info("stream %s: %s", asked.stream, action.reason)
        return format_time(now)

    def _release(self, context: Context, asked: Asked, controller: Controller) -> str | None:
        """Return the release to start: the one that ran before, or None for the current code and YAML."""
        if self.is_way_back:
            before: str | None = context["ti"].xcom_pull(task_ids="drain", key=RELEASE)
            return before
        if asked.result(asked.verb) is None or asked.verb.keeps_release:
            return launched_release(controller.layout, asked.stream)
        return None


class WatchComebackOperator(_OperationTask):
    """Waits, deferred, until the stream has committed a batch, and restarts its driver if it ends.

    Args:
        started_by: The task that started it.
        is_way_back: Whether the operation was undone: one committed batch is enough then.
    """

    def __init__(self, *, started_by: str, is_way_back: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.started_by = started_by
        self.is_way_back = is_way_back

    def execute(self, context: Context) -> str:
        """Watch the stream from its start on, as in `resume`."""
        return self._watch(context)

    def resume(self, context: Context, event: dict[str, Any]) -> str:
        """Act on the trigger's event.

        Args:
            context: The task's context.
            event: The trigger's event.

        Returns:
            The result of the watch, as text.

        Raises:
            TaskDeferred: The stream has not committed a batch yet.
            AirflowFailException: The stream has not committed a batch in time.
        """
        self.log.info("The trigger fired: %s", event["reason"])
        return self._watch(context, WatchClock.resumed(event.get("watched")))

    def _watch(self, context: Context, clock: WatchClock | None = None) -> str:
        asked = asked_of(context, self.asks)
        since = parse_time(context["ti"].xcom_pull(task_ids=self.started_by))
        until = since + timedelta(seconds=asked.watch_s)
        try:
            controller = controller_of(asked.stream)
            action = settle(controller, self._pause, NOTHING_DUE, clock)
        except CANNOT as error:
            raise failed(context, str(error)) from error
        seen = observe(controller.layout, asked.stream)
        whole = asked.verb.watches_whole and not self.is_way_back
        latest = max(until, since + controller.limits.start_deadline) if whole else None
        watch = Watch(since, until, whole, latest)
        found = comeback(seen, action, watch, datetime.now(UTC))
        if found.outcome == "failed":
            self.log.error("%s", log_tail(controller.layout, seen.control))
            raise failed(context, f"stream {asked.stream}: {found.reason}")
        if found.outcome == "open":
            self._wait(controller, watch)
        return f"stream {asked.stream}: {found.reason}"

    def _wait(self, controller: Controller, watch: Watch) -> None:
        trigger = StreamBackTrigger(
            controller.spec.stream,
            controller.limits.to_json(),
            since=format_time(watch.since),
            until=format_time(watch.until),
            whole=watch.whole,
            latest=format_time(watch.latest) if watch.latest else None,
            poll_s=self.poll_s,
        )
        self.defer(trigger=trigger, method_name="resume")
