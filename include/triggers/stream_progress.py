"""A trigger that watches a stream, and fires when its supervisor has something to do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from include.control.decide import Drain, Healthy, Wait, decide
from include.control.observe import StallClock, observe
from include.control.status import DocumentError, format_time
from include.control.supervisor import release, renew
from include.control.thresholds import Thresholds
from include.layout import Layout

log = logging.getLogger(__name__)


class StreamProgressTrigger(BaseTrigger):
    """Watches one stream. It never acts: cancelled, killed or moved, it leaves the driver alone.

    Args:
        stream: The stream's name.
        dag_run: Which DAG run supervises, `<dag id>/<run id>`; its heartbeat is renewed here.
        limits: `Thresholds.to_json()`. Passed rather than read, so that a YAML that breaks later
            does not end the supervision of a stream that runs.
        poll_s: Time between two looks, in seconds.
    """

    def __init__(self, stream: str, dag_run: str, limits: dict[str, Any], poll_s: float = 2.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.stream = stream
        self.dag_run = dag_run
        self.limits = limits
        self.poll_s = poll_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the path of this class and exactly its constructor's arguments."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "stream": self.stream,
                "dag_run": self.dag_run,
                "limits": self.limits,
                "poll_s": self.poll_s,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look every `poll_s` seconds; fire one event once an action is due."""
        watch = Watch(self.stream, self.dag_run, Thresholds.from_json(self.limits), Layout.of())
        while True:
            # Files may lie on slow storage, and all triggers share one event loop.
            event = await asyncio.to_thread(watch.look)
            if event is not None:
                yield TriggerEvent(event)  # type: ignore[no-untyped-call]
                return
            await asyncio.sleep(self.poll_s)

    async def on_kill(self) -> None:
        """Hand the supervision back when a person ends the task; the driver goes on."""
        await asyncio.to_thread(release, Layout.of(), self.stream, self.dag_run)


@dataclass
class Watch:
    """The trigger's looks at one stream."""

    stream: str
    dag_run: str
    limits: Thresholds
    layout: Layout
    clock: StallClock = field(default_factory=StallClock)
    told: frozenset[tuple[str, str]] = frozenset()

    def look(self) -> dict[str, Any] | None:
        """Look once.

        Returns:
            None while there is nothing to do. Otherwise `event` (`superseded`, or the name of the
            action that is due), `reason`, and `stalled_since`, which the documents do not show.
        """
        now = datetime.now(UTC)
        try:
            other = renew(self.layout, self.stream, self.dag_run, now)
            seen = observe(self.layout, self.stream)
        except OSError as error:
            # One failed look says nothing about the stream.
            log.warning("stream %s: storage cannot be read, will look again: %s", self.stream, error)
            return None
        except DocumentError as error:
            return {"event": "unreadable", "reason": str(error), "stalled_since": None}
        if other is not None:
            reason = f"{other.dag_run} has taken over"
            return {"event": "superseded", "reason": reason, "stalled_since": None}
        since = self.clock.see(seen.own_status, now)
        seen = type(seen)(seen.control, seen.status, seen.driver, stalled_since=since)
        action = decide(self.limits, seen, now)
        if isinstance(action, Healthy):
            self._tell(action)
        if isinstance(action, Healthy | Wait | Drain):
            return None
        return {
            "event": type(action).__name__.lower(),
            "reason": action.reason,
            "stalled_since": format_time(since) if since else None,
        }

    def _tell(self, action: Healthy) -> None:
        """Log what is slow or large once for each level that it reaches; the task's log shows it."""
        found = frozenset((warning.measure, warning.level) for warning in action.warnings)
        for warning in action.warnings:
            if (warning.measure, warning.level) not in self.told:
                log.warning("stream %s: %s", self.stream, warning)
        if self.told and not found:
            log.info("stream %s: all measures are within their limits again", self.stream)
        self.told = found
