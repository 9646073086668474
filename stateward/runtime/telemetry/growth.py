"""How much faster a state grows than its input, from the stream's history. Pure.

A state may grow because more comes in. So its growth over a window of time is divided by the growth of the
input: the records of the window, against those of the three windows before it.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

# Windows of history that are needed. The input of one window alone changes with the time of the day, and a
# new stream, whose state grows until its first keys end, has grown by a third at most after so many.
_WINDOWS = 4
_LEAST_KEYS = 10_000
_LEAST_BYTES = 10_000_000


class _Sample(NamedTuple):
    at: datetime
    generation: int
    delivered: int
    keys: int
    size: int


def growth(
    lines: Sequence[tuple[datetime, str]], now: datetime, window: timedelta
) -> dict[str, float | None]:
    """Compute the growth at the end of a history.

    Args:
        lines: Its lines with their times, oldest first.
        now: The time, aware.
        window: Over which the state has grown.

    Returns:
        ``key_growth`` and ``state_growth``: by what factor the keys and their bytes have grown within the
        window, divided by the factor by which the input has, if that has grown. They are None for fewer than
        10,000 keys or 10 MB at the window's begin, without four windows of history, and after a change of
        the checkpoint within them.
    """
    unknown: dict[str, float | None] = {"key_growth": None, "state_growth": None}
    # A driver may have been down; a sample that is much older would be another window.
    samples = [_sample(lines, now - back * window, window / 4) for back in (_WINDOWS, 1, 0)]
    first, begin, end = samples
    if first is None or begin is None or end is None or len({one.generation for one in samples if one}) > 1:
        return unknown
    before, after = _rate(first, begin), _rate(begin, end)
    if before is None or after is None or (after and not before):
        return unknown
    of_input = max(1.0, after / before) if before else 1.0
    return {
        "key_growth": _factor(begin.keys, end.keys, _LEAST_KEYS, of_input),
        "state_growth": _factor(begin.size, end.size, _LEAST_BYTES, of_input),
    }


def _factor(begin: int, end: int, least: int, of_input: float) -> float | None:
    return None if begin < least else round(end / begin / of_input, 3)


def _rate(begin: _Sample, end: _Sample) -> float | None:
    """Records a second; None if the counter or the clock was set back."""
    seconds = (end.at - begin.at).total_seconds()
    records = end.delivered - begin.delivered
    return records / seconds if seconds > 0 and records >= 0 else None


def _sample(lines: Sequence[tuple[datetime, str]], at: datetime, tolerance: timedelta) -> _Sample | None:
    """The last line at or before a time, unless it is too old or lacks a measure."""
    number = bisect_right(lines, at, key=lambda line: line[0]) - 1
    if number < 0 or at - lines[number][0] > tolerance:
        return None
    found: dict[str, Any] = json.loads(lines[number][1])
    names = ("generation", "delivered", "state_keys", "live_bytes")
    values = [value for name in names if isinstance(value := found.get(name), int)]
    return _Sample(lines[number][0], *values) if len(values) == len(names) else None
