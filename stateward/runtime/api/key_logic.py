"""The interface between a stream's pure logic and the code that runs it, one key at a time.

A stream's logic is three functions of one key. Everything else is the same for all streams and is here: when
an event is folded, when a timeout is due, when a key needs a timer, and the oracle. Pure.

Every path applies the events and timeouts of a key in this order::

    for each event, by (event time, id):
        expire while the state's deadline is at or before the event     (at the deadline, not at the event)
        apply the event
    expire while the deadline is at or before the watermark

With a jitter the last step waits until the watermark has passed the deadline by the key's offset
(`offset_ms`). That delays the rows and does not change them: their times are those of the deadline, and an
event expires a state as before.
"""

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from stateward.runtime.watermark.admission import Admission, Limits, Seen, Timed, admit, forgotten_at, order

S = TypeVar("S")
E = TypeVar("E", bound=Timed)
E_contra = TypeVar("E_contra", bound=Timed, contravariant=True)

# Rows are named tuples; the class of a row decides its table.
Rows = Sequence[tuple[Any, ...]]
NO_ROWS: Rows = ()

# Held events that are folded, without effect, to find the next timer. A key that holds more is processed
# again when that many have passed, so the cost per event does not grow with the number of held events.
_LOOK_AHEAD = 16

# Odd, near 2**32 over the golden ratio: spreads checksums that differ little.
_SPREAD = 0x9E3779B1


def row_id(*parts: str | int) -> str:
    """Identity of a row, computed from its parts: the same on every run, 32 hexadecimal digits.

    If a text contains the separator of parts, the lengths come first, so that two rows with equally many
    parts never have the same identity.
    """
    texts = [str(part) for part in parts]
    joined = "\x00".join(texts)
    if joined.count("\x00") >= max(len(texts), 1):
        joined = "\x00".join([*(str(len(text)) for text in texts), *texts])
    return hashlib.sha256(joined.encode()).hexdigest()[:32]


def masked_key(key: str) -> str:
    """A key that may identify a person, as its length and, if it has more than four, two characters."""
    shown = key[:2] if len(key) > 4 else ""
    return f"{shown}***({len(key)})"


def without_key(error: Exception, key: str) -> str:
    """Name and text of an error that a stream's function raised for a key, with the key masked."""
    text = f"{type(error).__name__}: {error}".replace(repr(key), masked_key(key))
    # A shorter key could be part of any other text.
    return text.replace(key, masked_key(key)) if len(key) > 4 else text


def offset_ms(key: str, jitter_ms: int) -> int:
    """How long a key's timeouts wait beyond their deadlines: at least 0 and less than ``jitter_ms``.

    The same in every process. It is independent of the key's bucket, so that the keys of one bucket are
    spread as well as those of different buckets.
    """
    return (zlib.crc32(key.encode()) * _SPREAD & 0xFFFFFFFF) * jitter_ms >> 32


class KeyLogic(Protocol[S, E_contra]):
    """The logic of one stream for one key.

    A state is immutable, and None when there is nothing to keep. Times are milliseconds since 1970 UTC. With
    ``emission: eager`` an event may be older than those before it, and with ``clock: processing`` if the
    clock was set back.
    """

    def apply(self, key: str, state: S | None, event: E_contra) -> tuple[S | None, Rows]:
        """The state after ``event``, and the rows it emits."""

    def deadline(self, state: S) -> int:
        """When the state expires if no event comes; an event *at* the deadline comes after it."""

    def expire(self, key: str, state: S, at_ms: int) -> tuple[S | None, Rows]:
        """The state after its deadline, ``at_ms``; None, or a state with a later deadline."""


class KeyState(NamedTuple, Generic[S, E]):
    """Everything kept for one key: the logic's state, and what `admission` needs."""

    state: S | None = None
    held: tuple[E, ...] = ()
    recent: tuple[Seen, ...] = ()
    floor_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to keep."""
        return self.state is None and not self.held and not self.recent


class KeyResult(NamedTuple, Generic[S, E]):
    """The result of processing a key: what is kept now, the rows, and the verdict on the arrivals."""

    kept: KeyState[S, E]
    rows: list[tuple[Any, ...]]
    admission: Admission[E]


def advance(
    logic: KeyLogic[S, E],
    key: str,
    kept: KeyState[S, E],
    arrivals: Sequence[E],
    *,
    watermark_ms: int,
    passed_ms: int | None = None,
    limits: Limits,
) -> KeyResult[S, E]:
    """Admit arrivals, fold what the watermark has passed, and expire what is due.

    Args:
        logic: The stream's.
        key: The key.
        kept: What is kept so far.
        arrivals: New events; empty when a timer fired.
        watermark_ms: The watermark of this micro-batch: arrivals before it are late.
        passed_ms: The watermark of the next one, if it is known already; None if not.
        limits: Allowed lateness, bounds and jitter.
    """
    if passed_ms is None:
        passed_ms = watermark_ms
    admission = admit(
        kept.held,
        kept.recent,
        arrivals,
        floor_ms=kept.floor_ms,
        watermark_ms=watermark_ms,
        passed_ms=passed_ms,
        limits=limits,
    )
    rows: list[tuple[Any, ...]] = []
    state = fold(logic, key, kept.state, admission.ready, rows)
    if state is not None:
        jitter_ms = limits.jitter_ms
        until_ms = passed_ms - offset_ms(key, jitter_ms) if jitter_ms else passed_ms
        state = expire_until(logic, key, state, until_ms, rows)
    after = KeyState(state, admission.held, admission.recent, admission.floor_ms)
    return KeyResult(after, rows, admission)


def fold(
    logic: KeyLogic[S, E], key: str, state: S | None, events: Iterable[E], rows: list[tuple[Any, ...]]
) -> S | None:
    """Apply events, which are in order, with the timeouts between them; appends to ``rows``."""
    for event in events:
        if state is not None and logic.deadline(state) <= event.event_ms:
            state = expire_until(logic, key, state, event.event_ms, rows)
        state, emitted = logic.apply(key, state, event)
        if emitted:
            rows += emitted
    return state


def expire_until(
    logic: KeyLogic[S, E], key: str, state: S | None, until_ms: int, rows: list[tuple[Any, ...]]
) -> S | None:
    """Let every deadline at or before ``until_ms`` pass, each at its own time; appends to ``rows``."""
    while state is not None:
        due_ms = logic.deadline(state)
        if due_ms > until_ms:
            break
        state, emitted = logic.expire(key, state, due_ms)
        rows += emitted
    return state


def next_timer(logic: KeyLogic[S, E], key: str, kept: KeyState[S, E], limits: Limits) -> int | None:
    """The earliest watermark (ms) at which there is something to do; None when nothing is kept.

    Something to do is a row to emit, a deadline that passes, or the last id to forget. Held events are folded
    without effect: the first one that emits a row sets the timer. A key is therefore processed once per
    outcome and not once per event.
    """
    state = kept.state
    wait_ms = offset_ms(key, limits.jitter_ms) if limits.jitter_ms else 0
    for number, event in enumerate(kept.held):
        if state is not None:
            due_ms = logic.deadline(state)
            if due_ms <= event.event_ms:
                return min(due_ms + wait_ms, event.event_ms + 1)
        if number == _LOOK_AHEAD:
            return event.event_ms + 1
        state, emitted = logic.apply(key, state, event)
        if emitted:
            return event.event_ms + 1
    if state is not None:
        return logic.deadline(state) + wait_ms
    if kept.held:
        return kept.held[-1].event_ms + 1
    return max((forgotten_at(seen, limits) for seen in kept.recent), default=None)


def replay_oracle(logic: KeyLogic[S, E], key: str, events: Iterable[E]) -> list[tuple[Any, ...]]:
    """The oracle: all rows of a key's events, applied in order, after which no event comes any more.

    The first by event time counts of events with the same id.
    """
    distinct: dict[str, E] = {}
    for event in sorted(events, key=order):
        distinct.setdefault(event.event_id, event)
    rows: list[tuple[Any, ...]] = []
    state = fold(logic, key, None, distinct.values(), rows)
    while state is not None:
        state, emitted = logic.expire(key, state, logic.deadline(state))
        rows += emitted
    return rows
