"""A trigger that watches a stream, and fires when an action or a message is due."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from stateward.airflow.storage_connection import use_storage
from stateward.alerts.incident import Message, Observation, next_incidents
from stateward.alerts.incident_document import (
    CarriedIncidents,
    IncidentDocument,
    carried_to_json,
    read_incidents,
)
from stateward.alerts.outbox import is_open, to_send
from stateward.contract.reading import InvalidDocumentError, parse_time
from stateward.control.health.thresholds import Thresholds
from stateward.control.reconcile.decide import Action, Done, Drain, GiveUp, Healthy, Wait
from stateward.control.reconcile.leader_heartbeat import release, renew
from stateward.control.reconcile.observe import observe
from stateward.control.reconcile.spec_watcher import YamlWatch
from stateward.control.reconcile.start_queue import decide_in_turn
from stateward.control.reconcile.watch_clock import WatchClock
from stateward.project.layout import Layout
from stateward.project.settings import Settings

log = logging.getLogger(__name__)


class StreamProgressTrigger(BaseTrigger):
    """Watches one stream. It never acts: cancelled, killed or moved, it does not touch the driver.

    Args:
        stream: The stream's name.
        dag_run: The supervising DAG run, `<dag id>/<run id>`; its heartbeat is renewed here.
        limits: `Thresholds.to_json()`. Passed rather than read, so that a YAML that becomes invalid does not
            end the supervision of a running stream.
        poll_s: Time between two observations, seconds.
        alerts_from: When to process incidents again after an error; None: at once.
        yaml: `digest_of` the YAML that the task has used; None: the YAML at the start of the watch.
        project: The project's folder; by default that of this process, which is the task's. The triggerer
            reads no DAG file.
    """

    def __init__(
        self,
        stream: str,
        dag_run: str,
        limits: dict[str, Any],
        *,
        poll_s: float = 2.0,
        alerts_from: str | None = None,
        yaml: str | None = None,
        project: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.stream = stream
        self.dag_run = dag_run
        self.limits = limits
        self.poll_s = poll_s
        self.alerts_from = alerts_from
        self.yaml = yaml
        self.project = project or str(Settings().project)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the constructor's arguments."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "stream": self.stream,
                "dag_run": self.dag_run,
                "limits": self.limits,
                "poll_s": self.poll_s,
                "alerts_from": self.alerts_from,
                "yaml": self.yaml,
                "project": self.project,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Observe every `poll_s` seconds; fire one event when an action or a message is due."""
        settings = Settings(project=Path(self.project))
        await asyncio.to_thread(use_storage, settings)
        watch = Watch(
            self.stream,
            self.dag_run,
            Thresholds.from_json(self.limits),
            Layout.of(settings),
            resolve_after=timedelta(seconds=settings.resolve_after_s),
            alerts_from=parse_time(self.alerts_from) if self.alerts_from else None,
            starts_at_once=settings.starts_at_once,
            yaml=YamlWatch(self.stream, settings.streams, self.yaml),
        )
        while True:
            # Storage may be slow, and all triggers share one event loop.
            event = await asyncio.to_thread(watch.look)
            if event is not None:
                yield TriggerEvent(event)
                return
            await asyncio.sleep(self.poll_s)

    async def on_kill(self) -> None:
        """Give up the supervision when a person ends the task; the driver keeps running."""
        layout = Layout.of(Settings(project=Path(self.project)))
        await asyncio.to_thread(release, layout, self.stream, self.dag_run)


@dataclass
class Watch:
    """The trigger's observations of one stream.

    It keeps the state of incidents in memory until a message is due, and the task stores it. So a restarted
    trigger knows which messages were sent, and fires once for each transition.
    """

    stream: str
    dag_run: str
    limits: Thresholds
    layout: Layout
    clock: WatchClock = field(default_factory=WatchClock)
    logged: frozenset[tuple[str, str]] = frozenset()
    resolve_after: timedelta = timedelta(minutes=5)
    alerts_from: datetime | None = None
    starts_at_once: int = 1
    incidents: IncidentDocument | None = None
    yaml: YamlWatch | None = None

    def look(self) -> dict[str, Any] | None:
        """Observe the stream once.

        Returns:
            None while nothing is due. Otherwise `event` (`superseded`, `alert`, `changed`, or the name of the
            action that is due), `reason`, and what the documents do not hold: `watched`, as
            `WatchClock.resumed` reads it, and `incidents`, as `carried_from_json` does.
        """
        now = datetime.now(UTC)
        try:
            other = renew(self.layout, self.stream, self.dag_run, now)
            seen = observe(self.layout, self.stream)
            self.incidents = self.incidents or read_incidents(self.layout, self.stream)
        except OSError as error:
            # One failed observation says nothing about the stream.
            self.clock.fail(datetime.now(UTC))
            log.warning("stream %s: storage cannot be read, will try again: %s", self.stream, error)
            return None
        except InvalidDocumentError as error:
            return {"event": "unreadable", "reason": str(error)}
        if other is not None:
            reason = f"{other.dag_run} has taken over"
            return {"event": "superseded", "reason": reason}
        seen = self.clock.see(seen, now)
        # Starts the task only if it would launch a driver.
        action = decide_in_turn(self.layout, self.limits, seen, now, self.starts_at_once)
        if isinstance(action, Healthy):
            self._tell(action)
        messages = self._take_in(self.incidents, Observation(self.stream, action, seen, now))
        event, reason = self._event(self.incidents, action, messages, now), action.reason
        if event is None and self.yaml is not None and self.yaml.changed():
            # The task reads the YAML: the desired state and the limits of the stream's health.
            event, reason = "changed", "its YAML has changed"
        if event is None:
            return None
        carried = CarriedIncidents(self.incidents.revision, self.incidents.memory, messages)
        return {
            "event": event,
            "reason": reason if event != "alert" else _what_is_told(messages),
            "watched": self.clock.to_json(),
            "incidents": carried_to_json(carried),
        }

    def _take_in(self, incidents: IncidentDocument, look: Observation) -> tuple[Message, ...]:
        if self.alerts_from is not None and look.now < self.alerts_from:
            return ()
        memory, messages = next_incidents(incidents.memory, look, self.resolve_after)
        self.incidents = replace(incidents, memory=memory)
        return messages

    def _event(
        self, incidents: IncidentDocument, action: Action, messages: tuple[Message, ...], now: datetime
    ) -> str | None:
        """Name the due action; None when nothing is due."""
        rests = self.alerts_from is not None and now < self.alerts_from
        alert = not rests and bool(messages or to_send(incidents.outbox, now))
        if isinstance(action, Healthy | Wait | Drain):
            return "alert" if alert else None
        if isinstance(action, Done | GiveUp) and not alert and is_open(incidents.outbox):
            # Supervision ends after the message is sent, or has failed often enough.
            return None
        return type(action).__name__.lower()

    def _tell(self, action: Healthy) -> None:
        """Log each finding once per level, in the task's log."""
        found = frozenset((warning.measure, warning.level) for warning in action.warnings)
        for warning in action.warnings:
            if (warning.measure, warning.level) not in self.logged:
                log.warning("stream %s: %s", self.stream, warning)
        if self.logged and not found:
            log.info("stream %s: all measures are within their limits again", self.stream)
        self.logged = found


def _what_is_told(messages: tuple[Message, ...]) -> str:
    return (
        f"to tell: {', '.join(message.id for message in messages)}" if messages else "a message to send again"
    )
