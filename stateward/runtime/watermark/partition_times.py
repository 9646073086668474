"""Event times of each partition: collected by tasks, merged per batch. Pure.

An event advances the watermark to its own time, but not beyond the timestamp of its record nor beyond the
broker's time. An event ahead of the broker's time has no effect until the broker's time reaches it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from stateward.runtime.watermark.topic_partitions import Partition, Topics, in_order, partition_name

if TYPE_CHECKING:
    from confluent_kafka import Message

Ahead = Mapping[Partition, tuple[int, ...]]
"""Event times (ms) per partition that are later than the broker's time."""

# Only the largest time ahead of each minute is kept, so their number is bounded by `max_ahead`.
_SLOT_MS = 60_000
_APPEND_TIME = 2  # confluent_kafka.TIMESTAMP_LOG_APPEND_TIME
NEVER = -(1 << 63)
"""Before every time."""


@dataclass(frozen=True)
class Times:
    """Times found in some records, in milliseconds since 1970 UTC.

    Attributes:
        newest: The largest event time of each partition.
        ahead: Event times later than the broker's time, the largest of each minute.
        lag_ms: The smallest delay between an event's time and its arrival; None without an event.
        ended: The offset and the time of the last end-of-replay record, per partition.
        silent: Partitions that were read and contained no valid event.
        seen: The broker's timestamp of the last record of each partition; empty if producers set the
            timestamps.
        append_time: Whether the broker sets the timestamps; None without a record.
        records: The number of records.
        size: Their size in bytes.
    """

    newest: Mapping[Partition, int] = field(default_factory=dict)
    ahead: Ahead = field(default_factory=dict)
    lag_ms: int | None = None
    ended: Mapping[Partition, tuple[int, int]] = field(default_factory=dict)
    silent: frozenset[Partition] = frozenset()
    seen: Mapping[Partition, int] = field(default_factory=dict)
    append_time: bool | None = None
    records: int = 0
    size: int = 0

    def of_topics(self, topics: Topics, before: Iterable[str]) -> Times:
        """The times with partitions named as for these topics; ``before`` are those that were read."""
        before = tuple(before)
        return replace(
            self,
            newest=topics.renamed(self.newest, before),
            ahead=topics.renamed(self.ahead, before),
            ended=topics.renamed(self.ended, before),
            silent=frozenset(topics.renamed(dict.fromkeys(self.silent), before)),
            seen=topics.renamed(self.seen, before),
        )

    def to_json(self) -> dict[str, Any]:
        """The times as a JSON object."""
        return {
            "newest": {str(p): at for p, at in self.newest.items()},
            "ahead": {str(p): list(times) for p, times in self.ahead.items()},
            "lag_ms": self.lag_ms,
            "ended": {str(p): list(end) for p, end in self.ended.items()},
            "silent": in_order(self.silent),
            "seen": {str(p): at for p, at in self.seen.items()},
            "append_time": self.append_time,
            "records": self.records,
            "size": self.size,
        }


def times_from_json(document: Mapping[str, Any]) -> Times:
    """Read the object that `Times.to_json` returns."""
    return Times(
        newest={partition_name(p): int(at) for p, at in document["newest"].items()},
        ahead=ahead_from_json(document["ahead"]),
        lag_ms=document["lag_ms"],
        ended=ended_from_json(document["ended"]),
        silent=frozenset(document["silent"]),
        # Missing in documents of the previous release.
        seen={partition_name(p): int(at) for p, at in document.get("seen", {}).items()},
        append_time=document["append_time"],
        records=int(document["records"]),
        size=int(document["size"]),
    )


def ahead_from_json(document: Mapping[str, Iterable[int]]) -> Ahead:
    """Read event times by partition."""
    return {partition_name(p): tuple(times) for p, times in document.items()}


def ended_from_json(document: Mapping[str, Sequence[int]]) -> dict[Partition, tuple[int, int]]:
    """Read offset and time of end-of-replay records by partition."""
    return {partition_name(p): (int(offset), int(at_ms)) for p, (offset, at_ms) in document.items()}


def merge_times(parts: Iterable[Times]) -> Times:
    """Merge the times of the tasks of one batch."""
    found = list(parts)
    newest = latest(*(one.newest for one in found))
    lags = [one.lag_ms for one in found if one.lag_ms is not None]
    stamps = [one.append_time for one in found if one.append_time is not None]
    return Times(
        newest=newest,
        ahead=merge_ahead(*(one.ahead for one in found)),
        lag_ms=min(lags, default=None),
        ended=latest_ends(*(one.ended for one in found)),
        silent=frozenset[Partition]().union(*(one.silent for one in found)) - newest.keys(),
        seen=latest(*(one.seen for one in found)),
        append_time=all(stamps) if stamps else None,
        records=sum(one.records for one in found),
        size=sum(one.size for one in found),
    )


def latest(*maps: Mapping[Partition, int]) -> dict[Partition, int]:
    """The largest time of each partition."""
    found: dict[Partition, int] = {}
    for one in maps:
        for partition, at_ms in one.items():
            found[partition] = max(at_ms, found.get(partition, at_ms))
    return found


def latest_ends(*maps: Mapping[Partition, tuple[int, int]]) -> dict[Partition, tuple[int, int]]:
    """The last end-of-replay record of each partition."""
    found: dict[Partition, tuple[int, int]] = {}
    for one in maps:
        for partition, end in one.items():
            found[partition] = max(end, found.get(partition, end))
    return found


def merge_ahead(*maps: Ahead) -> dict[Partition, tuple[int, ...]]:
    """The largest time of each partition and minute."""
    slots: dict[Partition, dict[int, int]] = defaultdict(dict)
    for one in maps:
        for partition, times in one.items():
            for at_ms in times:
                slot = at_ms // _SLOT_MS
                slots[partition][slot] = max(at_ms, slots[partition].get(slot, at_ms))
    return {partition: tuple(sorted(times.values())) for partition, times in slots.items()}


def split_reached(ahead: Ahead, now_ms: int) -> tuple[dict[Partition, int], dict[Partition, tuple[int, ...]]]:
    """Split times ahead: the largest per partition that is reached now, and those that are still ahead."""
    now: dict[Partition, int] = {}
    later: dict[Partition, tuple[int, ...]] = {}
    for partition, times in ahead.items():
        if reached := [at_ms for at_ms in times if at_ms <= now_ms]:
            now[partition] = max(reached)
        if waiting := tuple(at_ms for at_ms in times if at_ms > now_ms):
            later[partition] = waiting
    return now, later


class TimeTracker:
    """Collects the times of one task's records, by slot (`topic_partitions`).

    Args:
        now_ms: The broker's time when the batch was planned.
        not_before_ms: Timestamps before it are invalid.
        topics: The stream's topics.

    Attributes:
        newest: The largest event time of each partition; earlier events need no call of `event`.
    """

    def __init__(self, now_ms: int, not_before_ms: int, topics: Topics) -> None:
        self._topics = topics
        self._first_slot = 0
        self.now_ms = now_ms
        self.newest: dict[int, int] = {}
        self._not_before_ms = not_before_ms
        self._ahead: dict[int, dict[int, int]] = defaultdict(dict)
        self._lag_ms: int | None = None
        self._ended: dict[int, tuple[int, int]] = {}
        self._append_time: bool | None = None
        self._read: set[int] = set()
        self._reading: set[int] = set()
        self._seen: dict[int, int] = {}
        self._records = self._size = 0

    def read(self, first_slot: int, partitions: Iterable[int]) -> None:
        """Add partitions of a topic that are read, even if they contain no records.

        Args:
            first_slot: The slot of the topic's partition 0.
            partitions: Their numbers.
        """
        self._first_slot = first_slot
        self._reading = {first_slot + partition for partition in partitions}
        self._read |= self._reading

    def records(self, messages: Sequence[Message]) -> None:
        """Add records, valid or not."""
        if messages:
            self._append_time = messages[0].timestamp()[0] == _APPEND_TIME
            self._records += len(messages)
            self._size += sum(map(len, messages))
            if self._append_time:
                self._note_last(messages)

    def _note_last(self, messages: Sequence[Message]) -> None:
        missing = set(self._reading)
        for message in reversed(messages):
            partition = self._first_slot + (message.partition() or 0)
            if partition in missing:
                self._seen[partition] = message.timestamp()[1]
                missing.discard(partition)
            if not missing:
                return

    def event(self, partition: int, event_ms: int, record_ms: int) -> None:
        """Add the time of an event that is later than `newest`, and the timestamp of its record."""
        if event_ms > self.now_ms:
            slot = event_ms // _SLOT_MS
            slots = self._ahead[partition]
            slots[slot] = max(event_ms, slots.get(slot, event_ms))
            return
        # A timestamp before the event time: the event was ahead of the clock when it was written.
        reached_ms = record_ms if self._not_before_ms <= record_ms < event_ms else event_ms
        if reached_ms <= self.newest.get(partition, NEVER):
            return
        self.newest[partition] = reached_ms
        lag_ms = (record_ms if self._append_time else self.now_ms) - reached_ms
        if self._lag_ms is None or lag_ms < self._lag_ms:
            self._lag_ms = lag_ms

    def end_of_replay(self, partition: int, offset: int, value: bytes | None) -> None:
        """Add an end-of-replay record; an unreadable one is ignored."""
        at_ms = _end_time(value)
        if at_ms is not None:
            self._ended[partition] = (offset, at_ms)

    def times(self) -> Times:
        """The collected times, by the names of partitions."""
        name = self._topics.named
        return Times(
            newest={name(slot): at for slot, at in self.newest.items()},
            ahead={name(slot): tuple(sorted(times.values())) for slot, times in self._ahead.items()},
            lag_ms=self._lag_ms,
            ended={name(slot): end for slot, end in self._ended.items()},
            silent=frozenset(map(name, self._read - self.newest.keys())),
            seen={name(slot): at for slot, at in self._seen.items()},
            append_time=self._append_time,
            records=self._records,
            size=self._size,
        )


def _end_time(value: bytes | None) -> int | None:
    try:
        moment = datetime.fromisoformat(json.loads(value or b"null")["tick"])
    except (ValueError, KeyError, TypeError):
        return None
    return None if moment.tzinfo is None else int(moment.timestamp() * 1000)
