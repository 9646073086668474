"""Ticks: what moves the watermark, decided when a batch is planned (docs/decisions/0003). Pure.

While records wait, ticks follow the slowest partition, so that the answer does not depend on how a backlog is
cut into batches. When every partition is read to its end they also follow the broker's time, or the end of a
replay. A stream in processing time ticks by the broker's time and nothing else. No tick passes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stateward.runtime.kafka.batch_plan import Plan
from stateward.runtime.watermark.due_times import NO_ALARMS, DueTimes
from stateward.runtime.watermark.partition_times import Times, both_ahead, come, last_ends, latest

# Events this far behind the time at which they arrived are a replay, not a live topic.
REPLAY_DISTANCE_MS = 3_600_000
# How often a quiet stream ticks for which nothing is due.
_IDLE_MS = 60_000


@dataclass(frozen=True)
class TickRule:
    """How a stream ticks. Durations in milliseconds.

    Attributes:
        mode: ``auto``, ``wall_clock``, ``record`` or ``off``: what happens when the topic is quiet; or
            ``processing``, whatever the topic does.
        interval_ms: The pause between two ticks of a quiet topic.
        due_ms: The same when a timer is due.
        delay_ms: How far the watermark stays behind a tick.
    """

    mode: str
    interval_ms: int
    due_ms: int
    delay_ms: int


@dataclass(frozen=True)
class View:
    """The data topic at one moment, and what the batches before have shown.

    Attributes:
        begin: Next offset to read, per partition.
        ends: Next offset to be written, per partition.
        unread: Partitions of which nothing was read yet.
        times: What the batch before has shown, or the last one that had records.
        due: When timers are due.
        asked_ms: A tick that was asked for, whatever the topic does; None as a rule.
    """

    begin: Mapping[int, int]
    ends: Mapping[int, int]
    unread: frozenset[int] = frozenset()
    times: Times = field(default_factory=Times)
    due: DueTimes = NO_ALARMS
    asked_ms: int | None = None

    @property
    def waiting(self) -> list[int]:
        """Partitions with records that wait."""
        return [p for p, end in self.ends.items() if self.begin.get(p, 0) < end]


def next_plan(rule: TickRule, before: Plan, view: View, now_ms: int) -> Plan:
    """What time it is for the batch that is planned now; where it ends is not decided here.

    Args:
        rule: How the stream ticks.
        before: The plan of the batch before.
        view: What is known.
        now_ms: The broker's time.
    """
    times = view.times
    reached, ahead = come(both_ahead(before.ahead, times.ahead), now_ms)
    known = replace(
        before,
        now_ms=now_ms,
        ticks=False,
        newest=latest(before.newest, times.newest, reached),
        ahead=ahead,
        silent=(before.silent - times.newest.keys()) | times.silent,
        seen=latest(before.seen, times.seen),
        ended=last_ends(before.ended, times.ended),
        replay=before.replay if times.lag_ms is None else times.lag_ms > REPLAY_DISTANCE_MS,
        append_time=before.append_time if times.append_time is None else times.append_time,
        record_bytes=times.size // times.records if times.records else before.record_bytes,
    )
    event_ms = None if rule.mode == "processing" else event_tick(known, view)
    quiet_ms = _quiet_tick(rule, known, view, now_ms)
    tick_ms = max((tick for tick in (event_ms, quiet_ms, view.asked_ms) if tick is not None), default=None)
    if tick_ms is None or (before.tick_ms is not None and tick_ms <= before.tick_ms):
        return known
    clock_ms = now_ms if tick_ms == quiet_ms else before.clock_ms
    return replace(known, tick_ms=tick_ms, ticks=True, clock_ms=clock_ms)


def event_tick(known: Plan, view: View) -> int | None:
    """How far the events themselves have got: the slowest of the partitions that have records waiting.

    When none has, the largest time counts, as in Spark's own watermark. A partition that waits and of which
    nothing was read yet could hold anything, so there is no tick then. Where the last records of one had no
    event that counts, its events hold no other back. What waits in a partition came after the last record
    that was read of it: no tick passes that record's stamp, if it is the broker's.
    """
    waiting = view.waiting
    if not known.newest or view.unread.intersection(waiting):
        return None
    slow = [known.newest[p] for p in waiting if p in known.newest and p not in known.silent]
    return min([*slow, *_stamps(known, waiting), max(known.newest.values())])


def _stamps(known: Plan, waiting: Sequence[int]) -> list[int]:
    return [known.seen[p] for p in waiting if p in known.seen]


def _quiet_tick(rule: TickRule, known: Plan, view: View, now_ms: int) -> int | None:
    """The tick of a topic that is quiet, or None."""
    if rule.mode == "processing":
        return now_ms if _is_time(rule, known, view, now_ms) else None
    # Before the first event there is nothing to time out, and a tick would make a replay's events late.
    is_begun = known.newest or known.tick_ms is not None
    if rule.mode == "off" or not is_begun or set(view.waiting) - known.silent:
        return None
    if rule.mode == "record" or (rule.mode == "auto" and known.replay):
        end_ms = recorded_tick(known, view)
        return None if end_ms is None else min(end_ms, now_ms)
    if not _is_time(rule, known, view, now_ms):
        return None
    return min([now_ms, *_stamps(known, view.waiting)])


def _is_time(rule: TickRule, known: Plan, view: View, now_ms: int) -> bool:
    """Whether the clock is to tick: a batch for nothing is to be avoided."""
    sent_ms = None if known.tick_ms is None else known.tick_ms - rule.delay_ms
    due = view.due.is_due(now_ms - rule.delay_ms, sent_ms)
    since_ms = now_ms - known.clock_ms
    if since_ms < (rule.due_ms if due else rule.interval_ms):
        return False
    return due or not view.due.known or since_ms >= _IDLE_MS


def recorded_tick(known: Plan, view: View) -> int | None:
    """The earliest of the end-of-replay times, or None unless every partition ends with one."""
    if not view.ends:
        return None
    ended = known.ended
    times = [ended[p][1] for p, end in view.ends.items() if p in ended and ended[p][0] == end - 1]
    return min(times) if len(times) == len(view.ends) else None
