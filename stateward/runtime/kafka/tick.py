"""Ticks, which advance the watermark; decided when a batch is planned (docs/decisions/0003). Pure.

While records wait, ticks follow the slowest partition, so that the result does not depend on how a backlog is
divided into batches. Once every partition is read to its end, ticks also follow the broker's time or the end
of a replay. In processing time ticks follow only the broker's time. No tick is later than the broker's time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stateward.runtime.checkpoint.batch_plan import Plan, TopicTick
from stateward.runtime.watermark.due_times import NO_TIMERS, DueTimes
from stateward.runtime.watermark.partition_times import Times, latest, latest_ends, merge_ahead, split_reached
from stateward.runtime.watermark.topic_partitions import Partition, of_topic

# If events arrive this long after their event time, the topic is a replay and not live.
REPLAY_DISTANCE_MS = 3_600_000
# How often an idle stream ticks if no timer is due.
_IDLE_MS = 60_000


@dataclass(frozen=True)
class TickRule:
    """How a stream ticks. Durations in milliseconds.

    Attributes:
        mode: ``auto``, ``wall_clock``, ``record`` or ``off``: what an idle topic does; or ``processing``,
            independent of the topic.
        interval_ms: The interval between two ticks of an idle topic.
        due_ms: The interval if a timer is due.
        delay_ms: How far the watermark is behind a tick.
        asked_ms: What is added to a tick that is requested explicitly, for a topic with another delay than
            the stream has.
    """

    mode: str
    interval_ms: int
    due_ms: int
    delay_ms: int
    asked_ms: int = 0


@dataclass(frozen=True)
class View:
    """The data topics at one moment, and the times found in earlier batches.

    Attributes:
        begin: Next offset to read, per partition.
        ends: Next offset to be written, per partition.
        unread: Partitions from which no record was read yet.
        times: Times of the last batch with records.
        due: When timers are due.
        asked_ms: A tick requested explicitly; usually None.
        is_begun: Whether another topic of the stream had events.
    """

    begin: Mapping[Partition, int]
    ends: Mapping[Partition, int]
    unread: frozenset[Partition] = frozenset()
    times: Times = field(default_factory=Times)
    due: DueTimes = NO_TIMERS
    asked_ms: int | None = None
    is_begun: bool = False

    def of_topic(self, topic: str, *, is_begun: bool) -> View:
        """The view of one topic of several."""
        return replace(
            self,
            begin=of_topic(self.begin, topic),
            ends=of_topic(self.ends, topic),
            unread=frozenset(of_topic(dict.fromkeys(self.unread), topic)),
            is_begun=is_begun,
        )

    @property
    def waiting(self) -> list[Partition]:
        """Partitions with waiting records."""
        return [p for p, end in self.ends.items() if self.begin.get(p, 0) < end]


def next_plan(rule: TickRule, before: Plan, view: View, now_ms: int) -> Plan:
    """Plan the times of the next batch; its end offsets are not decided here.

    Args:
        rule: How the stream ticks.
        before: The plan of the previous batch.
        view: The topic and the known times.
        now_ms: The broker's time.
    """
    return _ticked(rule, _known(before, view.times, now_ms), view, now_ms)


def next_plan_by_topic(
    rules: Mapping[str, TickRule], policy: str, before: Plan, view: View, now_ms: int
) -> Plan:
    """Plan the times of the next batch of a stream in which each topic has a watermark.

    All ticks are sent again whenever one of them advances: after a restart Spark does not know how far each
    watermark had got, and takes the smallest or the largest of those that it has seen since.

    Args:
        rules: How each topic ticks.
        policy: ``min`` or ``max``: which of the watermarks counts.
        before: The plan of the previous batch.
        view: The topics and the known times.
        now_ms: The broker's time.
    """
    known = _known(before, view.times, now_ms)
    is_begun = bool(known.newest) or any(tick.tick_ms is not None for tick in before.topic_ticks.values())
    plans = {}
    for topic, rule in rules.items():
        last = before.topic_ticks.get(topic, TopicTick())
        mine = replace(known.of_topic(topic), tick_ms=last.tick_ms, clock_ms=last.clock_ms)
        plans[topic] = _ticked(rule, mine, view.of_topic(topic, is_begun=is_begun), now_ms)
    reached = [one.tick_ms - rules[topic].delay_ms for topic, one in plans.items() if one.tick_ms is not None]
    delay_ms = max(rule.delay_ms for rule in rules.values())
    if policy == "min":
        watermark_ms = min(reached) if len(reached) == len(plans) else None
    else:
        watermark_ms = max(reached, default=None)
    return replace(
        known,
        tick_ms=None if watermark_ms is None else watermark_ms + delay_ms,
        ticks=any(one.ticks for one in plans.values()),
        clock_ms=max(one.clock_ms for one in plans.values()),
        topic_ticks={topic: TopicTick(one.tick_ms, one.clock_ms) for topic, one in plans.items()},
    )


def _known(before: Plan, times: Times, now_ms: int) -> Plan:
    """The plan before the tick is decided."""
    reached, ahead = split_reached(merge_ahead(before.ahead, times.ahead), now_ms)
    return replace(
        before,
        now_ms=now_ms,
        ticks=False,
        newest=latest(before.newest, times.newest, reached),
        ahead=ahead,
        silent=(before.silent - times.newest.keys()) | times.silent,
        seen=latest(before.seen, times.seen),
        ended=latest_ends(before.ended, times.ended),
        replay=before.replay if times.lag_ms is None else times.lag_ms > REPLAY_DISTANCE_MS,
        append_time=before.append_time if times.append_time is None else times.append_time,
        record_bytes=times.size // times.records if times.records else before.record_bytes,
    )


def _ticked(rule: TickRule, known: Plan, view: View, now_ms: int) -> Plan:
    """The plan with the tick that follows from what is known."""
    event_ms = None if rule.mode == "processing" else event_tick(known, view)
    quiet_ms = _quiet_tick(rule, known, view, now_ms)
    asked_ms = None if view.asked_ms is None else view.asked_ms + rule.asked_ms
    tick_ms = max((tick for tick in (event_ms, quiet_ms, asked_ms) if tick is not None), default=None)
    if tick_ms is None or (known.tick_ms is not None and tick_ms <= known.tick_ms):
        return known
    clock_ms = now_ms if tick_ms == quiet_ms else known.clock_ms
    return replace(known, tick_ms=tick_ms, ticks=True, clock_ms=clock_ms)


def event_tick(known: Plan, view: View) -> int | None:
    """The tick that follows from event times: that of the slowest partition with waiting records.

    If no partition has waiting records, the largest event time counts, as in Spark's own watermark. A waiting
    partition from which no record was read yet may contain any time, so there is no tick. A partition whose
    last records contained no valid event does not delay the others. Waiting records arrived after the last
    record that was read from their partition, so no tick is later than that record's timestamp, if the broker
    set it.
    """
    waiting = view.waiting
    if not known.newest or view.unread.intersection(waiting):
        return None
    slow = [known.newest[p] for p in waiting if p in known.newest and p not in known.silent]
    return min([*slow, *_stamps(known, waiting), max(known.newest.values())])


def _stamps(known: Plan, waiting: Sequence[Partition]) -> list[int]:
    return [known.seen[p] for p in waiting if p in known.seen]


def _quiet_tick(rule: TickRule, known: Plan, view: View, now_ms: int) -> int | None:
    """The tick of an idle topic, or None."""
    if rule.mode == "processing":
        return now_ms if _is_time(rule, known, view, now_ms) else None
    # Before the first event nothing can time out, and a tick would make the events of a replay late.
    is_begun = known.newest or known.tick_ms is not None or view.is_begun
    if rule.mode == "off" or not is_begun or set(view.waiting) - known.silent:
        return None
    if rule.mode == "record" or (rule.mode == "auto" and known.replay):
        end_ms = recorded_tick(known, view)
        return None if end_ms is None else min(end_ms, now_ms)
    if not _is_time(rule, known, view, now_ms):
        return None
    return min([now_ms, *_stamps(known, view.waiting)])


def _is_time(rule: TickRule, known: Plan, view: View, now_ms: int) -> bool:
    """Whether the clock ticks now; avoids empty batches."""
    sent_ms = None if known.tick_ms is None else known.tick_ms - rule.delay_ms
    due = view.due.is_due(now_ms - rule.delay_ms, sent_ms)
    since_ms = now_ms - known.clock_ms
    if since_ms < (rule.due_ms if due else rule.interval_ms):
        return False
    return due or not view.due.known or since_ms >= _IDLE_MS


def recorded_tick(known: Plan, view: View) -> int | None:
    """The earliest end-of-replay time, or None unless every partition ends with an end-of-replay record."""
    if not view.ends:
        return None
    ended = known.ended
    times = [ended[p][1] for p, end in view.ends.items() if p in ended and ended[p][0] == end - 1]
    return min(times) if len(times) == len(view.ends) else None
