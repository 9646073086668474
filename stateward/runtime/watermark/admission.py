"""Which events of a key are accepted, late or duplicate, and which are ready to be folded.

Pure: no engine, no clock. An event is held until the watermark has passed it, so that events are folded in
the order of their event time, whatever the order of arrival. The rules, with ``W`` the watermark in
milliseconds:

* duplicate: an event with its id is held, or was folded and ``event time + lateness >= W`` (the horizon of
  Spark's ``dropDuplicatesWithinWatermark``). This is checked first, so a repeated record is never late while
  its id is known;
* late: ``event time < W``; an event exactly at the watermark is on time;
* ready: ``event time < W`` for a held event, in the order ``(event time, event id)``. With ``eager`` every
  accepted event is ready at once, in that order among events of the same batch. With ``as_they_come`` events
  of the same time are in the order of arrival instead of their ids.

The number of held events is bounded. Beyond ``max_held`` the oldest events are folded early and set a floor:
a later arrival below the floor can no longer be folded in order, so it counts as late. Only for such a key
the result may depend on the order of arrival. Beyond ``max_held`` remembered ids the oldest are forgotten
early, and a repeated event then counts twice. Both cases are counted (`Overrun`).
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar


class Timed(Protocol):
    """An event with an id and an event time."""

    @property
    def event_id(self) -> str:
        """Id of the event within its key."""

    @property
    def event_ms(self) -> int:
        """Event time, milliseconds since 1970 UTC."""


E = TypeVar("E", bound=Timed)


class Seen(NamedTuple):
    """An event that was folded and whose id is still remembered."""

    event_id: str
    event_ms: int


@dataclass(frozen=True)
class Limits:
    """How long events are held, and how many.

    Attributes:
        lateness_ms: Allowed lateness in milliseconds.
        max_held: Maximum number of held events, and of remembered ids, per key.
        eager: Whether events are folded on arrival instead of after the watermark has passed them.
        as_they_come: Whether events of the same time are folded in the order of arrival.
        jitter_ms: The interval after their deadlines over which the timeouts of keys are spread.
    """

    lateness_ms: int
    max_held: int
    eager: bool = False
    as_they_come: bool = False
    jitter_ms: int = 0


class Overrun(NamedTuple):
    """Effects of the bounds of a key in one call.

    Attributes:
        folded_early: Events folded before the watermark had passed them.
        ids_forgotten: Ids forgotten before their time.
        below_floor: Arrivals that are late only because of the floor.
    """

    folded_early: int
    ids_forgotten: int
    below_floor: int


class Admission(NamedTuple, Generic[E]):
    """The result for the arrivals of one call.

    Attributes:
        ready: Events to fold now, in order.
        held: Events still held, in order.
        recent: Remembered ids of folded events, by event time.
        floor_ms: Arrivals below it are late even if the watermark has not passed them; None without a floor.
        accepted: Number of accepted arrivals.
        duplicates: Number of duplicates.
        late: The late arrivals.
        overrun: Effects of the bounds; None if they were not reached.
    """

    ready: tuple[E, ...]
    held: tuple[E, ...]
    recent: tuple[Seen, ...]
    floor_ms: int | None
    accepted: int
    duplicates: int
    late: tuple[E, ...]
    overrun: Overrun | None = None


# The order in which events are folded: event time, then id.
order: Callable[[Timed], tuple[int, str]] = attrgetter("event_ms", "event_id")


_time: Callable[[Timed], int] = attrgetter("event_ms")
_id: Callable[[Timed | Seen], str] = attrgetter("event_id")


def forgotten_at(seen: Seen, limits: Limits) -> int:
    """The earliest watermark (ms) at which the id can be forgotten."""
    return seen.event_ms + limits.lateness_ms + 1


def admit(
    held: Sequence[E],
    recent: Sequence[Seen],
    arrivals: Sequence[E],
    *,
    floor_ms: int | None,
    watermark_ms: int,
    passed_ms: int,
    limits: Limits,
) -> Admission[E]:
    """Classify the arrivals of one key at one watermark.

    Args:
        held: Events held so far.
        recent: Ids folded so far and still remembered.
        arrivals: New events, in the order of arrival if that matters. If two events have the same id, the
            one with the earlier event time is accepted.
        floor_ms: The floor of an earlier overflow, or None.
        watermark_ms: The watermark of the micro-batch: arrivals before it are late.
        passed_ms: Events before it are folded; never less than the watermark. It is the watermark of the next
            call, so ids that are forgotten there are not kept.
        limits: Allowed lateness and bounds.
    """
    horizon = watermark_ms - limits.lateness_ms
    remembered = [seen for seen in recent if seen.event_ms >= horizon] if recent else []
    earliest_ms = watermark_ms if floor_ms is None else max(watermark_ms, floor_ms)
    by = _time if limits.as_they_come else order
    taken, late, duplicates = _judge(held, remembered, arrivals, earliest_ms, by)
    if held and len(taken) > 1:
        taken.sort(key=by)
    passed = _passed(taken, passed_ms, limits)
    overflow = max(0, len(taken) - passed - limits.max_held)
    accepted = len(taken) - len(held)
    ready, still_held = taken[: passed + overflow], taken[passed + overflow :]
    if overflow:
        floor_ms = ready[-1].event_ms
    horizon = passed_ms - limits.lateness_ms
    if remembered and passed_ms > watermark_ms:
        remembered = [seen for seen in remembered if seen.event_ms >= horizon]
    if ready and ready[-1].event_ms >= horizon:
        first = bisect_left(ready, horizon, key=_time)
        remembered += [Seen(event.event_id, event.event_ms) for event in ready[first:]]
    forgotten = max(0, len(remembered) - limits.max_held)
    overrun = None
    if overflow or forgotten or late:
        below = sum(event.event_ms >= watermark_ms for event in late)
        overrun = Overrun(overflow, forgotten, below) if overflow or forgotten or below else None
    return Admission(
        tuple(ready),
        tuple(still_held),
        tuple(remembered[-limits.max_held :]),
        floor_ms if floor_ms is not None and floor_ms > watermark_ms else None,
        accepted,
        duplicates,
        tuple(late),
        overrun,
    )


def _judge(
    held: Sequence[E],
    remembered: Sequence[Seen],
    arrivals: Sequence[E],
    earliest_ms: int,
    by: Callable[[Timed], Any],
) -> tuple[list[E], Sequence[E], int]:
    """The held events followed by the accepted arrivals, the late arrivals, and the number of duplicates."""
    taken = list(held)
    if len(arrivals) == 1:  # the common case with many keys
        return _judge_one(taken, remembered, arrivals, earliest_ms)
    arriving = sorted(arrivals, key=by)
    known = {*map(_id, remembered), *map(_id, held)}
    ids = set(map(_id, arriving))
    if (
        len(ids) == len(arriving)
        and ids.isdisjoint(known)
        and not (ids and arriving[0].event_ms < earliest_ms)
    ):
        # All of them are accepted, as almost always.
        return [*held, *arriving], (), 0
    late: list[E] = []
    duplicates = 0
    for event in arriving:
        if event.event_id in known:
            duplicates += 1
        elif event.event_ms < earliest_ms:
            late.append(event)
        else:
            known.add(event.event_id)
            taken.append(event)
    return taken, late, duplicates


def _judge_one(
    taken: list[E], remembered: Sequence[Seen], arrivals: Sequence[E], earliest_ms: int
) -> tuple[list[E], Sequence[E], int]:
    (event,) = arrivals
    event_id = event.event_id
    for known in (taken, remembered):
        for one in known:
            if one.event_id == event_id:
                return taken, (), 1
    if event.event_ms < earliest_ms:
        return taken, arrivals, 0
    taken.append(event)
    return taken, (), 0


def _passed(taken: Sequence[E], watermark_ms: int, limits: Limits) -> int:
    """The number of events, which are in order, to fold now."""
    if limits.eager:
        return len(taken)
    return bisect_left(taken, watermark_ms, key=_time)
