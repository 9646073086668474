"""Which events of a key explain one of its rows. Pure.

Those in the time that the row covers, from the first to the last of its times, both included, and those that
it names by their ids, whenever they were. So of a session the events between its begin and its end, of a
window those inside, of an alert the one that raised it and its evidence.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MOST = 50
"""Of more events than these a row is given the newest, beside their number."""


class Moment(NamedTuple):
    """One event: its time (ms since 1970 UTC), its id, and where in the topic it is."""

    event_ms: int
    event_id: str
    partition: int
    offset: int


class Covered(NamedTuple):
    """What a row says of its events.

    Attributes:
        first_ms: The first of its times; None if it has none.
        last_ms: The last of them.
        named: Texts in it, any of which may be an event's id.
    """

    first_ms: int | None
    last_ms: int | None
    named: Sequence[str]


class Evidence(NamedTuple):
    """The events that explain a row.

    Attributes:
        events: At most `MOST` of them, the newest, in order.
        in_all: How many there are.
    """

    events: tuple[Moment, ...]
    in_all: int


class KeyEvents:
    """All events of one key.

    Args:
        moments: In any order. An event that was sent twice is there twice.
    """

    def __init__(self, moments: Iterable[Moment]) -> None:
        self._moments = sorted(moments)
        self._times = [moment.event_ms for moment in self._moments]
        self._by_id: dict[str, list[int]] = defaultdict(list)
        for index, moment in enumerate(self._moments):
            self._by_id[moment.event_id].append(index)

    def explaining(self, row: Covered) -> Evidence:
        """Those that explain a row."""
        begin = end = 0
        if row.first_ms is not None and row.last_ms is not None:
            begin, end = bisect_left(self._times, row.first_ms), bisect_right(self._times, row.last_ms)
        named = {index for text in row.named for index in self._by_id.get(text, ())}
        outside = [index for index in named if not begin <= index < end]
        newest = sorted([*outside, *range(max(begin, end - MOST), end)])[-MOST:]
        return Evidence(tuple(self._moments[index] for index in newest), end - begin + len(outside))
