"""Results of expectations over time: a strip for one, bars for all of a table. Pure.

A result is valid until the next validation. If several share a slot, the worst is drawn, so that a failure of
a quarter of an hour is still visible in a month.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import TypeVar

from stateward.pages.quality.history import Result, Validation
from stateward.rendering.charts import HEIGHT, WIDTH
from stateward.rendering.human_units import format_time

SLOTS = 60
_WORST = ("bad", "warn", "good")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Bar:
    """A bar from the bottom of a chart of 100 by 40. `label` names the failure, if there is one."""

    x: float
    width: float
    height: float
    level: str
    label: str = ""

    @property
    def y(self) -> float:
        """Its top."""
        return round(HEIGHT - self.height, 2)


def strip(results: Iterable[Result], begin: datetime, end: datetime) -> tuple[Bar, ...]:
    """Draw the results of one expectation, as bars of full height.

    Args:
        results: The oldest first.
        begin: The left edge.
        end: The right edge, now.
    """
    points = [(one.at, one) for one in results]

    def bar(x: float, width: float, shared: Sequence[Result]) -> Bar:
        level = _worst(one.level for one in shared)
        failed = [one for one in shared if not one.held]
        label = f"failed at {format_time(failed[-1].at, end)}" if failed else ""
        if len(failed) > 1:
            label = f"failed {len(failed)} times until {format_time(failed[-1].at, end)}"
        return Bar(x, width, HEIGHT, level, label)

    return _joined(_bars(points, begin, end, bar))


def pass_rates(validations: Iterable[Validation], begin: datetime, end: datetime) -> tuple[Bar, ...]:
    """Draw the pass rate of a table: the height of a bar is the share of its expectations that held."""
    points = [(one.at, one) for one in validations]

    def bar(x: float, width: float, shared: Sequence[Validation]) -> Bar:
        worst = min(shared, key=lambda one: (_WORST.index(one.level), one.pass_rate))
        label = ""
        if worst.failed:
            at = format_time(worst.at, end)
            label = f"{worst.failed} of {worst.expectations} failed at {at}"
        lowest = min(one.pass_rate for one in shared)
        # A bar without height would be invisible.
        return Bar(x, width, max(2.0, round(HEIGHT * lowest / 100, 2)), worst.level, label)

    return _joined(_bars(points, begin, end, bar))


def _bars(
    points: Sequence[tuple[datetime, _T]],
    begin: datetime,
    end: datetime,
    bar: Callable[[float, float, Sequence[_T]], Bar],
) -> list[Bar]:
    slot = (end - begin) / SLOTS
    shown = [(min(SLOTS - 1, (at - begin) // slot), one) for at, one in points if begin <= at <= end]
    shared = [(place, [one for _, one in of_place]) for place, of_place in groupby(shown, lambda it: it[0])]
    edges = [place for place, _ in shared[1:]] + [SLOTS] * bool(shared)
    found = []
    for (place, of_place), edge in zip(shared, edges, strict=True):
        found.append(bar(_across(place), _across(place + 1) - _across(place), of_place))
        if edge > place + 1:
            found.append(bar(_across(place + 1), _across(edge) - _across(place + 1), of_place[-1:]))
    return found


def _joined(bars: Iterable[Bar]) -> tuple[Bar, ...]:
    """Merge neighbours of the same look and label."""
    found: list[Bar] = []
    for bar in bars:
        last = found[-1] if found else None
        if last and (last.level, last.label, last.height) == (bar.level, bar.label, bar.height):
            found[-1] = Bar(last.x, round(last.width + bar.width, 2), last.height, last.level, last.label)
        else:
            found.append(Bar(bar.x, round(bar.width, 2), bar.height, bar.level, bar.label))
    return tuple(found)


def _across(place: int) -> float:
    return round(WIDTH * place / SLOTS, 2)


def _worst(levels: Iterable[str]) -> str:
    return min(levels, key=_WORST.index)
