"""Which events of one key are accepted, which are late or duplicate, and which are ready to be folded.

Pure: no engine, no clock. An event is held until the watermark has passed it, so that events are folded in
the order of their event time however they arrived. The rules, with ``W`` the watermark in milliseconds:

* duplicate: its id is held, or was folded and ``event time + lateness >= W`` (the horizon of Spark's
  ``dropDuplicatesWithinWatermark``); checked first, so a repeated record is never called late while its id
  is known;
* late: ``event time < W``; an event exactly at the watermark is on time;
* ready: ``event time < W`` for a held event, in the order ``(event time, event id)``. With ``eager`` every
  accepted event is ready at once, in that order among those that arrived together. With ``as_they_come``
  events of the same time are in the order of their arrival, and not of their ids.

What is held is bounded. Beyond ``max_held`` the oldest events are folded early and leave a floor behind: a
later arrival below that floor could no longer be put in its place, so it counts as late. Only such a key
gives up the promise that the answer does not depend on the order of arrival. Beyond ``max_held`` remembered
ids the oldest are forgotten early, and an event that comes once more counts twice. Both are counted
(`Overrun`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar


class Timed(Protocol):
    """Anything with an identity and an event time."""

    @property
    def event_id(self) -> str:
        """Identity of the event within its key."""

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
    """How long to wait and how much to hold.

    Attributes:
        lateness_ms: Allowed lateness in milliseconds.
        max_held: Largest number of events held, and of ids remembered, per key.
        eager: Whether events are folded on arrival, and not once the watermark has passed them.
        as_they_come: Whether events of the same time are taken in the order of their arrival.
        jitter_ms: Over how many milliseconds beyond their deadlines the keys' timeouts are spread.
    """

    lateness_ms: int
    max_held: int
    eager: bool = False
    as_they_come: bool = False
    jitter_ms: int = 0


class Overrun(NamedTuple):
    """What the bounds of a key have cost it in one call.

    Attributes:
        folded_early: Events that were folded before the watermark had passed them.
        ids_forgotten: Ids that were forgotten before their time.
        below_floor: Late arrivals that are late for the floor alone.
    """

    folded_early: int
    ids_forgotten: int
    below_floor: int


class Admission(NamedTuple, Generic[E]):
    """The verdict on one call's arrivals.

    Attributes:
        ready: Events to fold now, in order.
        held: Events still held, in order.
        recent: Folded ids still remembered, by event time.
        floor_ms: Arrivals below it are late even if the watermark has not passed them; None when there
            is no floor.
        accepted: How many arrivals were accepted.
        duplicates: How many arrivals were duplicates.
        late: The late arrivals.
        overrun: What the bounds have cost; None if they were not reached.
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


def forgotten_at(seen: Seen, limits: Limits) -> int:
    """The earliest watermark (ms) at which the id is no longer needed."""
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
    """Judge the arrivals of one key at one watermark.

    Args:
        held: Events held so far.
        recent: Ids folded so far and still remembered.
        arrivals: New events, in the order of their arrival if that counts; of two with the same id the one
            with the earlier event time is accepted.
        floor_ms: The floor left by an earlier overflow, or None.
        watermark_ms: The watermark of the micro-batch: arrivals before it are late.
        passed_ms: Up to where events are folded; never less than the watermark.
        limits: Allowed lateness and bound.
    """
    horizon = watermark_ms - limits.lateness_ms
    remembered = [seen for seen in recent if seen.event_ms >= horizon] if recent else []
    earliest_ms = watermark_ms if floor_ms is None else max(watermark_ms, floor_ms)
    by = _time if limits.as_they_come else order
    taken, late, duplicates = _judge(held, remembered, arrivals, earliest_ms, by)
    if len(taken) > 1:
        taken.sort(key=by)
    passed = _passed(taken, passed_ms, limits)
    overflow = max(0, len(taken) - passed - limits.max_held)
    accepted = len(taken) - len(held)
    ready, still_held = taken[: passed + overflow], taken[passed + overflow :]
    if overflow:
        floor_ms = ready[-1].event_ms
    if ready:
        remembered += [Seen(event.event_id, event.event_ms) for event in ready if event.event_ms >= horizon]
    forgotten = max(0, len(remembered) - limits.max_held)
    overrun = None
    if overflow or forgotten or (late and earliest_ms > watermark_ms):
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
    """What is held with the accepted arrivals behind it, the late arrivals, and the number of duplicates."""
    taken = list(held)
    if len(arrivals) == 1:  # of most keys, when there are many
        return _judge_one(taken, remembered, arrivals, earliest_ms)
    late: list[E] = []
    duplicates = 0
    known = {seen.event_id for seen in remembered}
    known.update(event.event_id for event in held)
    for event in sorted(arrivals, key=by):
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
    """How many of the events, which are in order, may be folded now."""
    if limits.eager:
        return len(taken)
    passed = 0
    for event in taken:
        if event.event_ms >= watermark_ms:
            break
        passed += 1
    return passed
