"""Triggers that wait until a stream is drained or has committed a batch, or until an action is due."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from stateward.airflow.storage_connection import use_storage
from stateward.contract.reading import InvalidDocumentError, parse_time
from stateward.control.health.thresholds import Thresholds
from stateward.control.reconcile.decide import Drain, Healthy, Held, Observed, Suspended, Wait, decide
from stateward.control.reconcile.observe import observe
from stateward.control.reconcile.start_queue import decide_in_turn
from stateward.control.reconcile.startup_probe import Watch, comeback
from stateward.control.reconcile.watch_clock import WatchClock
from stateward.project.layout import Layout
from stateward.project.settings import Settings

log = logging.getLogger(__name__)


class _StreamTrigger(BaseTrigger):
    """Observes a stream periodically. It never acts; its event has the reason, and what its watch has seen.

    The project is by default that of the task that makes the trigger: the triggerer reads no DAG file.
    """

    def __init__(
        self, stream: str, limits: dict[str, Any], poll_s: float = 1.0, project: str | None = None
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.stream = stream
        self.limits = limits
        self.poll_s = poll_s
        self.project = project or str(Settings().project)
        self._clock = WatchClock()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the constructor's arguments."""
        return (f"{type(self).__module__}.{type(self).__qualname__}", self._arguments())

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Observe every `poll_s` seconds; fire one event."""
        layout = Layout.of(self._settings)
        await asyncio.to_thread(use_storage, self._settings)
        while True:
            # Storage may be slow, and all triggers share one event loop.
            reason = await asyncio.to_thread(self._look, layout)
            if reason is not None:
                yield TriggerEvent({"reason": reason, "watched": self._clock.to_json()})
                return
            await asyncio.sleep(self.poll_s)

    def _arguments(self) -> dict[str, Any]:
        return {
            "stream": self.stream,
            "limits": self.limits,
            "poll_s": self.poll_s,
            "project": self.project,
        }

    @property
    def _settings(self) -> Settings:
        return Settings(project=Path(self.project))

    def _look(self, layout: Layout) -> str | None:
        try:
            now = datetime.now(UTC)
            return self._due(layout, self._clock.see(observe(layout, self.stream), now), now)
        except OSError as error:
            # One failed observation says nothing about the stream.
            self._clock.fail(datetime.now(UTC))
            log.warning("stream %s: storage cannot be read, will try again: %s", self.stream, error)
            return None
        except InvalidDocumentError as error:
            return str(error)

    def _due(self, layout: Layout, seen: Observed, now: datetime) -> str | None:
        raise NotImplementedError


class StreamDrainedTrigger(_StreamTrigger):
    """Fires when a held stream is drained, or when its driver has to be killed.

    Args:
        stream: The stream's name.
        limits: `Thresholds.to_json()`.
        poll_s: Time between two observations, seconds.
    """

    def _due(self, layout: Layout, seen: Observed, now: datetime) -> str | None:
        action = decide(Thresholds.from_json(self.limits), seen, now)
        waits = isinstance(action, Drain | Wait) and not isinstance(action, Held | Suspended)
        return None if waits else action.reason


class StreamBackTrigger(_StreamTrigger):
    """Fires when a stream has committed a batch or failed to, or when its driver has to be restarted.

    Args:
        stream: The stream's name.
        limits: `Thresholds.to_json()`.
        since: When it was started, ISO 8601.
        until: The end of the watch, ISO 8601.
        whole: Whether it has to be healthy until then; see `Watch`.
        latest: The deadline of its first commit, ISO 8601.
        poll_s: Time between two observations, seconds.
    """

    def __init__(
        self,
        stream: str,
        limits: dict[str, Any],
        since: str,
        until: str,
        *,
        whole: bool = False,
        latest: str | None = None,
        poll_s: float = 1.0,
        project: str | None = None,
    ) -> None:
        super().__init__(stream, limits, poll_s, project)
        self.since = since
        self.until = until
        self.whole = whole
        self.latest = latest

    def _arguments(self) -> dict[str, Any]:
        return {
            **super()._arguments(),
            "since": self.since,
            "until": self.until,
            "whole": self.whole,
            "latest": self.latest,
        }

    def _due(self, layout: Layout, seen: Observed, now: datetime) -> str | None:
        limits, slots = Thresholds.from_json(self.limits), self._settings.starts_at_once
        action = decide_in_turn(layout, limits, seen, now, slots)
        latest = parse_time(self.latest) if self.latest else None
        watch = Watch(parse_time(self.since), parse_time(self.until), self.whole, latest)
        found = comeback(seen, action, watch, now)
        if found.outcome == "open" and isinstance(action, Healthy | Wait | Drain):
            return None
        return found.reason
