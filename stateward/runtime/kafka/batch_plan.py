"""What is planned for a micro-batch, and by which time: one versioned record in Spark's offset log. Pure.

A batch that runs again after a crash is the same plan, so it judges alike. In the log it stands beside the
offsets, ``{topic: {partition: next offset}}``, under a name that no topic of Kafka can have. A plan of a
release before version 2 is the offsets alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stateward.runtime.kafka.offsets import Offsets
from stateward.runtime.watermark.partition_times import Ahead, ahead_from_json, ended_from_json

PLAN = "$plan"
VERSION = 2


@dataclass(frozen=True)
class Plan:
    """One batch as it was planned. Times are milliseconds since 1970 UTC.

    Attributes:
        offsets: Where it ends, per data topic.
        now_ms: The broker's time; None in a plan of an earlier release, and of a stream that judges no times.
        tick_ms: The largest tick so far: the watermark follows it by the allowed lateness. None before the
            first.
        ticks: Whether this batch carries that tick.
        clock_ms: The broker's time at the last tick that followed the clock, 0 before it.
        newest: How far the events of each partition had got in the batches before.
        ahead: Times of events that the broker's time had not reached, by partition.
        silent: Partitions whose last records had no event that counts.
        seen: The broker's stamp of the last record of each partition that was read; none where producers
            stamp them.
        ended: Per partition the offset of the last end-of-replay record, and its time.
        replay: Whether the newest events came long after their own time.
        ids: Id of each topic in Kafka.
        append_time: Whether the broker stamps the records; None if there was none yet.
        record_bytes: Mean size of the records of the batch before; 0 if unknown.
    """

    offsets: Offsets
    now_ms: int | None = None
    tick_ms: int | None = None
    ticks: bool = False
    clock_ms: int = 0
    newest: Mapping[int, int] = field(default_factory=dict)
    ahead: Ahead = field(default_factory=dict)
    silent: frozenset[int] = frozenset()
    seen: Mapping[int, int] = field(default_factory=dict)
    ended: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    replay: bool = False
    ids: Mapping[str, str] = field(default_factory=dict)
    append_time: bool | None = None
    record_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        """The record of the offset log."""
        return {**offset_json(self.offsets), PLAN: self._document()}

    def _document(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "now_ms": self.now_ms,
            "tick_ms": self.tick_ms,
            "ticks": self.ticks,
            "clock_ms": self.clock_ms,
            "newest": {str(p): at for p, at in self.newest.items()},
            "ahead": {str(p): list(times) for p, times in self.ahead.items()},
            "silent": sorted(self.silent),
            "seen": {str(p): at for p, at in self.seen.items()},
            "ended": {str(p): list(end) for p, end in self.ended.items()},
            "replay": self.replay,
            "ids": dict(self.ids),
            "append_time": self.append_time,
            "record_bytes": self.record_bytes,
        }


def plan_from_json(document: Mapping[str, Any]) -> Plan:
    """A plan from a record of the offset log; fields that it lacks have their defaults."""
    found = document.get(PLAN) or {}
    return Plan(
        offsets=from_json(document),
        now_ms=found.get("now_ms"),
        tick_ms=found.get("tick_ms"),
        ticks=bool(found.get("ticks")),
        clock_ms=int(found.get("clock_ms") or 0),
        newest={int(p): int(at) for p, at in (found.get("newest") or {}).items()},
        ahead=ahead_from_json(found.get("ahead") or {}),
        silent=frozenset(found.get("silent") or ()),
        seen={int(p): int(at) for p, at in (found.get("seen") or {}).items()},
        ended=ended_from_json(found.get("ended") or {}),
        replay=bool(found.get("replay")),
        ids={str(topic): str(id_) for topic, id_ in (found.get("ids") or {}).items()},
        append_time=found.get("append_time"),
        record_bytes=int(found.get("record_bytes") or 0),
    )


def is_plan(document: Mapping[str, Any]) -> bool:
    """Whether a record of the offset log is of this version, and not of one that has offsets only."""
    return PLAN in document


def from_json(document: Mapping[str, Any]) -> Offsets:
    """The offsets of a record of the offset log."""
    found = {topic: parts for topic, parts in document.items() if topic != PLAN}
    return {topic: {int(p): int(o) for p, o in parts.items()} for topic, parts in found.items()}


def offset_json(offsets: Offsets) -> dict[str, Any]:
    """Offsets as a JSON object, whose keys are texts."""
    return {topic: {str(p): offset for p, offset in parts.items()} for topic, parts in offsets.items()}
