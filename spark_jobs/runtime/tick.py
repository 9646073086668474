"""Ticks: what makes timeouts fire on a quiet topic (docs/architecture.md). Pure; `monitor` does the talking.

Ticks alone move the watermark. While records wait they follow the slowest partition, so that the answer does
not depend on how a backlog is cut into batches; when every partition is read to its end they also follow the
wall clock, or the end of a replay. A stream in processing time ticks by the wall clock and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from spark_jobs.runtime.validation import TICK_KEY

# Events this far behind the time at which they were recorded are a replay, not a live topic.
REPLAY_DISTANCE_MS = 3_600_000


class Record(Protocol):
    """The newest record of a partition."""

    @property
    def key(self) -> bytes | None:
        """Raw key."""

    @property
    def value(self) -> bytes | None:
        """Raw value."""

    @property
    def timestamp_ms(self) -> int:
        """Kafka's timestamp."""


@dataclass(frozen=True)
class TopicView:
    """Topic and query at one moment.

    Attributes:
        committed: Next offset to read, per partition, as of the last committed batch.
        ends: Next offset to be written, per partition.
        newest: The last record of each partition that has one.
        seen_ms: The largest event time read from each partition so far.
        watermark_ms: The query's watermark; 0 until the first tick.
        lateness_ms: Allowed lateness.
        max_ahead_ms: How far a tick may be ahead of its record's timestamp.
    """

    committed: Mapping[int, int]
    ends: Mapping[int, int]
    newest: Mapping[int, Record]
    seen_ms: Mapping[int, int]
    watermark_ms: int
    lateness_ms: int
    max_ahead_ms: int

    @property
    def caught_up(self) -> bool:
        """Whether every partition is read to its end."""
        return not self.behind

    @property
    def behind(self) -> list[int]:
        """Partitions with records that wait."""
        return [p for p, end in self.ends.items() if self.committed.get(p, -1) < end]

    @property
    def largest_ms(self) -> int | None:
        """The largest event time seen, also by earlier drivers, or None before the first event."""
        earlier = [self.watermark_ms + self.lateness_ms] if self.watermark_ms > 0 else []
        return max([*self.seen_ms.values(), *earlier], default=None)

    @property
    def is_replay(self) -> bool:
        """Whether the events are much older than the records they came in."""
        newest_ms = max((record.timestamp_ms for record in self.newest.values()), default=None)
        if newest_ms is None or self.largest_ms is None:
            return False
        return newest_ms - self.largest_ms > REPLAY_DISTANCE_MS


def next_tick(mode: str, view: TopicView, now_ms: int) -> int | None:
    """The tick to send now, milliseconds since 1970 UTC, or None.

    Args:
        mode: ``auto``, ``wall_clock``, ``record`` or ``off``: what happens when the topic is quiet; or
            ``processing``, whatever the topic does.
        view: What is known; `TopicView.newest` may be empty in modes ``wall_clock`` and ``processing``.
        now_ms: The wall clock.
    """
    due = [tick for tick in (event_tick(view), _quiet_tick(mode, view, now_ms)) if tick is not None]
    tick_ms = max(due, default=None)
    if tick_ms is None or tick_ms - view.lateness_ms <= view.watermark_ms:
        return None
    return tick_ms


def event_tick(view: TopicView) -> int | None:
    """How far the events themselves have got: the slowest of the partitions that have records waiting.

    When none has, the largest time counts, as in Spark's own watermark. A partition that waits and of which
    nothing was read yet could hold anything, so there is no tick then.
    """
    behind = view.behind
    if not behind:
        return max(view.seen_ms.values(), default=None)
    if any(partition not in view.seen_ms for partition in behind):
        return None
    return min(view.seen_ms[partition] for partition in behind)


def _quiet_tick(mode: str, view: TopicView, now_ms: int) -> int | None:
    if mode == "processing":
        return now_ms
    # Before the first event there is nothing to time out, and a tick would make a replay's events late.
    if mode == "off" or view.largest_ms is None or not view.caught_up:
        return None
    if mode == "record" or (mode == "auto" and view.is_replay):
        return recorded_tick(view)
    return now_ms


def recorded_tick(view: TopicView) -> int | None:
    """The earliest of the end-of-replay times, or None unless every partition ends with one."""
    if not view.ends:
        return None
    times = [_tick_time(view.newest.get(partition), view.max_ahead_ms) for partition in view.ends]
    known = [time for time in times if time is not None]
    return min(known) if len(known) == len(times) else None


def _tick_time(record: Record | None, max_ahead_ms: int) -> int | None:
    if record is None or record.key != TICK_KEY.encode() or record.value is None:
        return None
    try:
        moment = datetime.fromisoformat(json.loads(record.value)["tick"])
    except (ValueError, KeyError, TypeError):
        return None
    if moment.tzinfo is None:
        return None
    # As for events: no record may push the watermark far beyond the time at which it was written.
    return min(int(moment.timestamp() * 1000), record.timestamp_ms + max_ahead_ms)
