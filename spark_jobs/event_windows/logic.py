"""All rows of ``event_windows`` from all events, seen at once: the oracle of its plan. Pure.

A window holds the events from its start up to, not including, its end. Starts are multiples of the slide, or
of the size, since 1970 UTC.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from decimal import Context, Decimal

from spark_jobs.event_windows.model import OrderedWindow, SlidingWindow, TumblingWindow, UserEvent
from stateward.runtime.api.key_logic import row_id
from stateward.runtime.watermark.admission import order

# Sums of 38 digits, as the table has them.
_EXACT = Context(prec=38)

Window = tuple[str, int]
"""User and start (ms)."""


def all_rows(
    events: Iterable[UserEvent], *, size_ms: int, slide_ms: int
) -> list[SlidingWindow | TumblingWindow]:
    """The rows of all windows that have an event.

    Args:
        events: In any order. The first by event time counts of those with the same user and id.
        size_ms: Length of a window, milliseconds.
        slide_ms: From the start of a sliding window to that of the next, milliseconds; at most the size.
    """
    sliding: dict[Window, list[UserEvent]] = defaultdict(list)
    tumbling: dict[Window, list[UserEvent]] = defaultdict(list)
    for event in _distinct(events):
        for start_ms in starts(event.event_ms, size_ms, slide_ms):
            sliding[event.user_id, start_ms].append(event)
        for start_ms in starts(event.event_ms, size_ms, size_ms):
            tumbling[event.user_id, start_ms].append(event)
    return [
        *(_sliding(window, size_ms, found) for window, found in sliding.items()),
        *(_tumbling(window, size_ms, found) for window, found in tumbling.items()),
    ]


def ordered_rows(events: Iterable[UserEvent], *, size_ms: int) -> list[OrderedWindow]:
    """The rows of the optional table: the events of each tumbling window by event time, then id.

    Args:
        events: See `all_rows`.
        size_ms: Length of a window, milliseconds.
    """
    found: dict[Window, list[UserEvent]] = defaultdict(list)
    for event in sorted(_distinct(events), key=order):
        found[event.user_id, event.event_ms - event.event_ms % size_ms].append(event)
    return [
        OrderedWindow(
            row_id(user_id, start_ms, start_ms + size_ms),
            user_id,
            start_ms,
            start_ms + size_ms,
            len(mine),
            tuple(event.event_type for event in mine),
            tuple(event.event_id for event in mine),
        )
        for (user_id, start_ms), mine in found.items()
    ]


def starts(event_ms: int, size_ms: int, slide_ms: int) -> Iterator[int]:
    """The starts (ms) of the windows that hold an event, the latest first."""
    start_ms = event_ms - event_ms % slide_ms
    while start_ms > event_ms - size_ms:
        yield start_ms
        start_ms -= slide_ms


def _distinct(events: Iterable[UserEvent]) -> Iterable[UserEvent]:
    distinct: dict[tuple[str, str], UserEvent] = {}
    for event in sorted(events, key=order):
        distinct.setdefault((event.user_id, event.event_id), event)
    return distinct.values()


def _sliding(window: Window, size_ms: int, events: list[UserEvent]) -> SlidingWindow:
    user_id, start_ms = window
    values = [event.value for event in events if event.value is not None]
    return SlidingWindow(
        row_id(user_id, start_ms, start_ms + size_ms),
        user_id,
        start_ms,
        start_ms + size_ms,
        len(events),
        _sum(values) if values else None,
        min(values, default=None),
        max(values, default=None),
    )


def _tumbling(window: Window, size_ms: int, events: list[UserEvent]) -> TumblingWindow:
    user_id, start_ms = window
    return TumblingWindow(
        row_id(user_id, start_ms, start_ms + size_ms),
        user_id,
        start_ms,
        start_ms + size_ms,
        len(events),
        tuple(sorted({event.event_type for event in events})),
    )


def _sum(values: list[Decimal]) -> Decimal:
    total = values[0]
    for value in values[1:]:
        total = _EXACT.add(total, value)
    return total
