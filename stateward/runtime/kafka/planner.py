"""Plans micro-batches: their end offsets and their time (`batch_plan`, `tick`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stateward.runtime.checkpoint.batch_plan import Plan, is_plan, plan_from_json
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.offsets import DataLossError, Offsets, limited
from stateward.runtime.delta.lookup_tables import LookupTable, newest
from stateward.runtime.kafka import planner_handover
from stateward.runtime.kafka.broker import Broker, BrokerAwayError
from stateward.runtime.kafka.broker_clock import BrokerClock
from stateward.runtime.kafka.tick import REPLAY_DISTANCE_MS, TickRule, View, next_plan, next_plan_by_topic
from stateward.runtime.watermark.topic_partitions import Topics

# Estimated bytes of a batch, from the mean record size of earlier ones: a task keeps its input in memory.
_BYTES_PER_BATCH = 512_000_000


@dataclass(frozen=True)
class TimeSource:
    """Where a stream with event time gets the time from.

    Attributes:
        rule: When the stream ticks.
        clock: The broker's time.
        file: The file with the driver's data (`planner_handover`).
        barrier_file: The file shared by several scans of a query (`scan_barrier`); None for one scan.
        by_topic: The rule of each topic, if each has a watermark.
        policy: Which of these watermarks counts: ``min`` or ``max``.
    """

    rule: TickRule
    clock: BrokerClock
    file: str
    barrier_file: str | None = None
    by_topic: Mapping[str, TickRule] = field(default_factory=dict)
    policy: str = "min"


@dataclass(frozen=True)
class Scan:
    """The input of a stream.

    Attributes:
        bootstrap: Address of the cluster.
        topics: The data topics, and how many partitions each had at the start.
        time: The source of time; None for a stream without event time.
        from_latest: Whether a new checkpoint starts at the latest offsets, and not at the earliest.
        most_records: Maximum number of records of the data topics in a batch.
        target_batch_s: How long a batch should last; 0 for any time (`batch_size`).
        checkpoint_uri: The checkpoint, which contains the initial offsets.
        forgotten_uri: The register of forgotten keys, whose records are left out; empty for none.
        lookups: The tables by which its records are enriched.
        reads: The topic whose records and ticks this scan reads, if the query has a scan of each; None for
            one that reads all of them.
    """

    bootstrap: str
    topics: Mapping[str, int]
    time: TimeSource | None
    from_latest: bool
    most_records: int
    target_batch_s: float
    checkpoint_uri: str
    forgotten_uri: str = ""
    lookups: tuple[LookupTable, ...] = ()
    reads: str | None = None


class Planner:
    """Plans the batches of one start of a query.

    Args:
        scan: The stream's input.
        broker: The cluster.
    """

    def __init__(self, scan: Scan, broker: Broker) -> None:
        self._scan = scan
        self._topics = Topics(tuple(scan.topics))
        self._broker = broker
        self._checkpoint = Checkpoint(scan.checkpoint_uri)
        self._initial: Offsets | None = None

    def first(self) -> Plan:
        """The start of a new checkpoint; decided once and stored in it."""
        offsets = self._checkpoint.initial_offsets()
        if not offsets:
            ask = self._broker.end_offsets if self._scan.from_latest else self._broker.begin_offsets
            offsets = {topic: ask(topic, count) for topic, count in self._scan.topics.items()}
            self._checkpoint.write_initial_offsets(offsets)
        return Plan(offsets)

    def next(self, start: dict[str, Any], most: int | None) -> dict[str, Any]:
        """The plan after ``start``, or ``start`` itself if there is nothing to do.

        Args:
            start: The plan of the batch before.
            most: Maximum number of records of the data topics; None for no limit.

        Raises:
            BrokerAwayError: Kafka does not answer.
            DataLossError: A topic was deleted and created again.
            LookupInvalidError: The table of a lookup does not exist.
        """
        before = self._before(start)
        ids, counts = self._described(before)
        begin = self.known(before.offsets, counts)
        # The time first, then the ends: a record that arrives in between is not older than that time.
        now_ms = None if self._scan.time is None else self._scan.time.clock.now_ms(self._broker)
        ends = {topic: self._broker.end_offsets(topic, count) for topic, count in counts.items()}
        after = replace(before.of_topics(self._topics), offsets=begin, ids=ids, ticks=False)
        if now_ms is not None:
            after = self._timed(before, after, ends, now_ms)
        if most is not None and after.record_bytes:
            most = max(1, min(most, _BYTES_PER_BATCH // after.record_bytes))
        if most is None:
            most = sum(sum(parts.values()) for parts in ends.values())
        offsets = limited(begin, ends, tuple(self._scan.topics), most)
        if offsets == begin and not after.ticks:
            return start
        if self._scan.lookups and offsets != begin:
            after = replace(after, lookups={one.lookup.name: newest(one) for one in self._scan.lookups})
        return replace(after, offsets=offsets).to_json()

    def known(self, offsets: Offsets, counts: Mapping[str, int] | None = None) -> Offsets:
        """The offsets of the data topics, including topics and partitions added since.

        Args:
            offsets: Those of a plan.
            counts: The number of partitions of each topic; None for those of the scan.
        """
        there = {**self._added(offsets), **offsets}
        return {
            topic: {**dict.fromkeys(range(count), 0), **there[topic]}
            for topic, count in (counts or self._scan.topics).items()
        }

    def _before(self, start: dict[str, Any]) -> Plan:
        before = plan_from_json(start)
        if is_plan(start) or self._scan.time is None:
            return before
        # The first plan, or one of an earlier release, whose only time is its watermark.
        last = self._checkpoint.planned(self._checkpoint.last_planned())
        if last is None or not last.watermark_ms:
            return before
        tick_ms = last.watermark_ms + self._scan.time.rule.delay_ms
        return replace(before, tick_ms=tick_ms, replay=last.planned_ms - tick_ms > REPLAY_DISTANCE_MS)

    def _described(self, before: Plan) -> tuple[dict[str, str], dict[str, int]]:
        found = self._broker.describe(tuple(self._scan.topics))
        for topic in self._scan.topics:
            if topic not in found:
                raise BrokerAwayError(f"Kafka at {self._scan.bootstrap} has no topic {topic} at present")
            id_ = found[topic][0]
            if before.ids.get(topic, id_) != id_:
                raise DataLossError(
                    f"topic {topic}: expected the topic with the id {before.ids[topic]}, found {id_}: it was "
                    "created again, and its first records are not those that the stream has read. Restore "
                    "the topic, or continue with this one from its start: `stateward state skip <stream>`."
                )
        ids = {topic: id_ for topic, (id_, _) in found.items()}
        return ids, {topic: count for topic, (_, count) in found.items()}

    def _timed(self, before: Plan, after: Plan, ends: Offsets, now_ms: int) -> Plan:
        source = self._scan.time
        assert source is not None  # the caller has the time from it
        given = planner_handover.read(source.file)
        begin = self._topics.by_name(after.offsets)
        if self._initial is None or not self._initial.keys() >= after.offsets.keys():
            self._initial = self._checkpoint.initial_offsets()
        initial = self._topics.by_name(self._initial)
        view = View(
            begin=begin,
            ends=self._topics.by_name(ends),
            unread=frozenset(p for p, offset in begin.items() if offset <= initial.get(p, 0)),
            times=given.times.of_topics(self._topics, before.offsets),
            due=given.due,
            asked_ms=given.asked_ms,
        )
        if source.by_topic:
            return next_plan_by_topic(source.by_topic, source.policy, after, view, now_ms)
        return next_plan(source.rule, after, view, now_ms)

    def _added(self, offsets: Offsets) -> Offsets:
        """The start offsets of topics added to the stream; decided once and stored."""
        missing = {topic: count for topic, count in self._scan.topics.items() if topic not in offsets}
        if not missing:
            return {}
        initial = self._checkpoint.initial_offsets()
        new = {
            topic: self._broker.begin_offsets(topic, count)
            for topic, count in missing.items()
            if topic not in initial
        }
        if new:
            self._checkpoint.write_initial_offsets({**initial, **new})
        return {topic: {**initial, **new}[topic] for topic in missing}
