"""Plans micro-batches: where each ends in Kafka, and what time it is for it (`plan`, `tick`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.kafka import planner_handover
from stateward.runtime.kafka.batch_plan import Plan, is_plan, plan_from_json
from stateward.runtime.kafka.broker import Broker, BrokerAwayError
from stateward.runtime.kafka.broker_clock import BrokerClock
from stateward.runtime.kafka.offsets import DataLossError, Offsets, limited
from stateward.runtime.watermark.tick import REPLAY_DISTANCE_MS, TickRule, View, next_plan

# Bytes of records in a batch, by the mean size of those before it: a task holds what it reads.
_BYTES_PER_BATCH = 512_000_000


@dataclass(frozen=True)
class TimeSource:
    """How a stream that judges times comes by them.

    Attributes:
        rule: How it ticks.
        clock: The broker's time.
        file: What the driver tells (`handover`).
        rounds: A file by which several scans of one query agree (`rounds`); None when there is one scan.
    """

    rule: TickRule
    clock: BrokerClock
    file: str
    rounds: str | None = None


@dataclass(frozen=True)
class Scan:
    """What a stream reads.

    Attributes:
        bootstrap: Address of the cluster.
        topics: The data topics, and how many partitions each had at the start.
        time: How it comes by the time; None for a stream that judges none.
        from_latest: Whether a new checkpoint begins at the topics' ends, and not at their begins.
        most_records: Records of the data topics in a batch.
        checkpoint_uri: Remembers where the first batch began.
    """

    bootstrap: str
    topics: Mapping[str, int]
    time: TimeSource | None
    from_latest: bool
    most_records: int
    checkpoint_uri: str


class Planner:
    """Plans the batches of one start of a query.

    Args:
        scan: What the stream reads.
        broker: The cluster.
    """

    def __init__(self, scan: Scan, broker: Broker) -> None:
        self._scan = scan
        self._broker = broker
        self._checkpoint = Checkpoint(scan.checkpoint_uri)
        self._initial: Offsets | None = None

    def first(self) -> Plan:
        """Where a new checkpoint begins; decided once and kept in it."""
        offsets = self._checkpoint.initial_offsets()
        if not offsets:
            ask = self._broker.end_offsets if self._scan.from_latest else self._broker.begin_offsets
            offsets = {topic: ask(topic, count) for topic, count in self._scan.topics.items()}
            self._checkpoint.write_initial_offsets(offsets)
        return Plan(offsets)

    def next(self, start: dict[str, Any], most: int | None) -> dict[str, Any]:
        """The plan after ``start``, or ``start`` itself when there is nothing to do.

        Args:
            start: The plan of the batch before.
            most: Records of the data topics; None for all there are.

        Raises:
            BrokerAwayError: Kafka does not answer.
            DataLossError: A topic was made anew.
        """
        before = self._before(start)
        ids, counts = self._described(before)
        begin = self.known(before.offsets, counts)
        # First the time: what arrives after it is not behind it by more than it was on its way.
        now_ms = None if self._scan.time is None else self._scan.time.clock.now_ms(self._broker)
        ends = {topic: self._broker.end_offsets(topic, count) for topic, count in counts.items()}
        after = replace(before, offsets=begin, ids=ids, ticks=False)
        if self._scan.time is not None and now_ms is not None:
            after = self._timed(after, self._scan.time, ends, now_ms)
        if most is not None and after.record_bytes:
            most = max(1, min(most, _BYTES_PER_BATCH // after.record_bytes))
        if most is None:
            most = sum(sum(parts.values()) for parts in ends.values())
        offsets = limited(begin, ends, tuple(self._scan.topics), most)
        if offsets == begin and not after.ticks:
            return start
        return replace(after, offsets=offsets).to_json()

    def known(self, offsets: Offsets, counts: Mapping[str, int] | None = None) -> Offsets:
        """The data topics' offsets, with topics and partitions that were added since.

        Args:
            offsets: Those of a plan.
            counts: How many partitions each topic has; None for those that the scan knows.
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
        # Of an earlier release, or the first: what it knew of time is the watermark it had got to.
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
                    "made anew, and its first records are not those that the stream has read. Restore the "
                    "topic, or go on with this one from its begin: `stateward state skip <stream>`."
                )
        ids = {topic: id_ for topic, (id_, _) in found.items()}
        return ids, {topic: count for topic, (_, count) in found.items()}

    def _timed(self, after: Plan, source: TimeSource, ends: Offsets, now_ms: int) -> Plan:
        [topic] = self._scan.topics
        told = planner_handover.read(source.file)
        begin = after.offsets[topic]
        if self._initial is None:
            self._initial = self._checkpoint.initial_offsets()
        initial = self._initial.get(topic, {})
        view = View(
            begin=begin,
            ends=ends[topic],
            unread=frozenset(p for p, offset in begin.items() if offset <= initial.get(p, 0)),
            times=told.times,
            due=told.due,
            asked_ms=told.asked_ms,
        )
        return next_plan(source.rule, after, view, now_ms)

    def _added(self, offsets: Offsets) -> Offsets:
        """Where topics begin that were added to the stream; decided once, as of the others."""
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
