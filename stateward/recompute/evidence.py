"""Which events of a key explain one of its rows. Pure.

They are the events in the time that the row covers, from the first to the last of its times, both included,
and those whose ids it contains, at any time. A session is explained by the events between its start and end,
a window by those inside, an alert by the one that raised it and its evidence.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MOST = 50
"""Maximum number of events per row: the newest, beside the number of all."""


class Moment(NamedTuple):
    """One event: its time (ms since 1970 UTC), its id, the slot of its partition, and its offset."""

    event_ms: int
    event_id: str
    slot: int
    offset: int


class Covered(NamedTuple):
    """The times and texts of a row that identify its events.

    Attributes:
        first_ms: The first of its times; None if it has none.
        last_ms: The last of them.
        named: Texts in it, any of which may be an event id.
    """

    first_ms: int | None
    last_ms: int | None
    named: Sequence[str]


class Evidence(NamedTuple):
    """The events that explain a row.

    Attributes:
        events: At most `MOST` of them, the newest, in order.
        in_all: Number of all events.
    """

    events: tuple[Moment, ...]
    in_all: int


class KeyEvents:
    """All events of one key.

    Args:
        moments: Events in any order. One that was sent twice appears twice.
    """

    def __init__(self, moments: Iterable[Moment]) -> None:
        self._moments = sorted(moments)
        self._times = [moment.event_ms for moment in self._moments]
        self._by_id: dict[str, list[int]] = defaultdict(list)
        for index, moment in enumerate(self._moments):
            self._by_id[moment.event_id].append(index)

    def explaining(self, row: Covered) -> Evidence:
        """Return the events that explain a row."""
        begin = end = 0
        if row.first_ms is not None and row.last_ms is not None:
            begin, end = bisect_left(self._times, row.first_ms), bisect_right(self._times, row.last_ms)
        named = {index for text in row.named for index in self._by_id.get(text, ())}
        outside = [index for index in named if not begin <= index < end]
        newest = sorted([*outside, *range(max(begin, end - MOST), end)])[-MOST:]
        return Evidence(tuple(self._moments[index] for index in newest), end - begin + len(outside))
