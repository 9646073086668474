"""The plan of a micro-batch: its end offsets and its time, one versioned record in Spark's offset log. Pure.

A batch that runs again after a crash has the same plan and gives the same result. In the log the plan stands
beside the offsets, ``{topic: {partition: next offset}}``, under a key that is no valid Kafka topic name.
Before version 2 a plan consisted of the offsets only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from stateward.runtime.checkpoint.offsets import Offsets
from stateward.runtime.delta.lookup_tables import TableVersion
from stateward.runtime.watermark.partition_times import Ahead, ahead_from_json, ended_from_json
from stateward.runtime.watermark.topic_partitions import (
    Partition,
    Topics,
    in_order,
    of_topic,
    partition_name,
)

PLAN = "$plan"
VERSION = 2


class TopicTick(NamedTuple):
    """The ticks of a topic with a watermark of its own: `Plan.tick_ms` and `Plan.clock_ms`."""

    tick_ms: int | None = None
    clock_ms: int = 0


@dataclass(frozen=True)
class Plan:
    """The plan of one batch. Times are milliseconds since 1970 UTC.

    Attributes:
        offsets: End offsets, per data topic.
        now_ms: The broker's time; None in a plan of an earlier release and for a stream without event time.
        tick_ms: The largest tick so far; the watermark is this minus the allowed lateness. None before the
            first tick.
        ticks: Whether this batch contains that tick.
        clock_ms: The broker's time at the last tick that followed the clock; 0 before it.
        newest: The largest event time of each partition in earlier batches.
        ahead: Event times later than the broker's time, by partition.
        silent: Partitions whose last records contained no valid event.
        seen: The broker's timestamp of the last record read from each partition; empty if producers set
            the timestamps.
        ended: The offset and the time of the last end-of-replay record, per partition.
        replay: Whether the newest events arrived long after their event time.
        ids: Kafka's id of each topic.
        append_time: Whether the broker sets the timestamps of records; None before the first record.
        record_bytes: Mean record size in the previous batch; 0 if unknown.
        topic_ticks: The tick of each topic, of a stream in which each has a watermark; ``tick_ms`` is then
            the one that counts for the stream's watermark.
        lookups: The version of each lookup's table with which records are read.
    """

    offsets: Offsets
    now_ms: int | None = None
    tick_ms: int | None = None
    ticks: bool = False
    clock_ms: int = 0
    newest: Mapping[Partition, int] = field(default_factory=dict)
    ahead: Ahead = field(default_factory=dict)
    silent: frozenset[Partition] = frozenset()
    seen: Mapping[Partition, int] = field(default_factory=dict)
    ended: Mapping[Partition, tuple[int, int]] = field(default_factory=dict)
    replay: bool = False
    ids: Mapping[str, str] = field(default_factory=dict)
    append_time: bool | None = None
    record_bytes: int = 0
    lookups: Mapping[str, TableVersion] = field(default_factory=dict)
    topic_ticks: Mapping[str, TopicTick] = field(default_factory=dict)

    def of_topics(self, topics: Topics) -> Plan:
        """The plan with partitions named as for these topics, if it is of a batch that read others."""
        before = tuple(self.offsets)
        return replace(
            self,
            newest=topics.renamed(self.newest, before),
            ahead=topics.renamed(self.ahead, before),
            silent=frozenset(topics.renamed(dict.fromkeys(self.silent), before)),
            seen=topics.renamed(self.seen, before),
            ended=topics.renamed(self.ended, before),
        )

    def of_topic(self, topic: str) -> Plan:
        """The plan with the partitions of one topic, of a stream that reads several."""
        return replace(
            self,
            newest=of_topic(self.newest, topic),
            ahead=of_topic(self.ahead, topic),
            silent=frozenset(of_topic(dict.fromkeys(self.silent), topic)),
            seen=of_topic(self.seen, topic),
            ended=of_topic(self.ended, topic),
        )

    def to_json(self) -> dict[str, Any]:
        """The plan as a record of the offset log."""
        return {**offset_json(self.offsets), PLAN: self._document()}

    def _document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "version": VERSION,
            "now_ms": self.now_ms,
            "tick_ms": self.tick_ms,
            "ticks": self.ticks,
            "clock_ms": self.clock_ms,
            "newest": {str(p): at for p, at in self.newest.items()},
            "ahead": {str(p): list(times) for p, times in self.ahead.items()},
            "silent": in_order(self.silent),
            "seen": {str(p): at for p, at in self.seen.items()},
            "ended": {str(p): list(end) for p, end in self.ended.items()},
            "replay": self.replay,
            "ids": dict(self.ids),
            "append_time": self.append_time,
            "record_bytes": self.record_bytes,
        }
        if self.topic_ticks:
            document["topic_ticks"] = {topic: list(tick) for topic, tick in self.topic_ticks.items()}
        if self.lookups:
            document["lookups"] = versions_json(self.lookups)
        return document


def versions_json(lookups: Mapping[str, TableVersion]) -> dict[str, Any]:
    """The versions of lookups as a JSON object."""
    return {name: {"version": at.version, "table": at.table_id} for name, at in lookups.items()}


def versions_from_json(document: Mapping[str, Any]) -> dict[str, TableVersion]:
    """Read the object that `versions_json` returns."""
    return {name: TableVersion(int(at["version"]), str(at["table"])) for name, at in document.items()}


def plan_from_json(document: Mapping[str, Any]) -> Plan:
    """Read a plan from a record of the offset log; missing fields get their defaults."""
    found = document.get(PLAN) or {}
    return Plan(
        offsets=from_json(document),
        now_ms=found.get("now_ms"),
        tick_ms=found.get("tick_ms"),
        ticks=bool(found.get("ticks")),
        clock_ms=int(found.get("clock_ms") or 0),
        newest={partition_name(p): int(at) for p, at in (found.get("newest") or {}).items()},
        ahead=ahead_from_json(found.get("ahead") or {}),
        silent=frozenset(found.get("silent") or ()),
        seen={partition_name(p): int(at) for p, at in (found.get("seen") or {}).items()},
        ended=ended_from_json(found.get("ended") or {}),
        replay=bool(found.get("replay")),
        ids={str(topic): str(id_) for topic, id_ in (found.get("ids") or {}).items()},
        append_time=found.get("append_time"),
        record_bytes=int(found.get("record_bytes") or 0),
        topic_ticks={topic: TopicTick(*tick) for topic, tick in (found.get("topic_ticks") or {}).items()},
        lookups=versions_from_json(found.get("lookups") or {}),
    )


def is_plan(document: Mapping[str, Any]) -> bool:
    """Whether a record of the offset log contains a plan, and not only offsets."""
    return PLAN in document


def from_json(document: Mapping[str, Any]) -> Offsets:
    """The offsets in a record of the offset log."""
    found = {topic: parts for topic, parts in document.items() if topic != PLAN}
    return {topic: {int(p): int(o) for p, o in parts.items()} for topic, parts in found.items()}


def offset_json(offsets: Offsets) -> dict[str, Any]:
    """Offsets as a JSON object."""
    return {topic: {str(p): offset for p, offset in parts.items()} for topic, parts in offsets.items()}
