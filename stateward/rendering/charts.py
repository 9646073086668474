"""Charts: their values and the coordinates of their drawings. Pure.

A drawing has its own coordinates: 100 wide, 0 at the top; 40 high over time, 100 high for columns. Text stays
out of it, so that it keeps its size on a phone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

Series = tuple[tuple[datetime, float], ...]
"""Values by time, the oldest first."""

WIDTH, HEIGHT = 100.0, 40.0
_MARGIN = 2.0
_SLOTS = 120
_MOST_COLUMNS = 128
APART = timedelta(minutes=3)
"""Drivers write a sample per minute: between two that are farther apart some are missing."""


@dataclass(frozen=True)
class Drawing:
    """A line over time.

    Attributes:
        line: The path of the line, broken where samples are missing.
        area: The path of what is below it.
        gaps: Where samples are missing: left edge and width.
        limit_y: Height of the limit, if it is within the drawing.
    """

    line: str
    area: str
    gaps: tuple[tuple[float, float], ...]
    limit_y: float | None


@dataclass(frozen=True)
class Mark:
    """An event on a chart: its horizontal position and its label."""

    x: float
    is_failure: bool
    label: str


@dataclass(frozen=True)
class Chart:
    """One measure over time. `now` is the last value; `is_old` marks an outdated one."""

    name: str
    unit: str
    now: str
    low: str
    high: str
    limit: str
    is_old: bool
    drawing: Drawing | None
    marks: tuple[Mark, ...] = ()

    @property
    def says(self) -> str:
        """A description of the chart, for screen readers."""
        if self.drawing is None:
            return f"{self.name}: no samples in this time."
        last = "last" if self.is_old else "now"
        failures = sum(mark.is_failure for mark in self.marks)
        text = f"{self.name}: lowest {self.low}, highest {self.high}, {last} {self.now}"
        text += f", limit {self.limit}" if self.limit else ""
        text += f"; {failures} failures" if failures else ""
        return (
            f"{text}; samples are missing in {len(self.drawing.gaps)} places."
            if self.drawing.gaps
            else f"{text}."
        )


def chart_of(
    series: Series,
    begin: datetime,
    end: datetime,
    *,
    name: str,
    unit: str,
    form: Callable[[float | None], str],
    limit: float | None = None,
    marks: tuple[Mark, ...] = (),
    apart: timedelta = APART,
) -> Chart:
    """Build the chart of a series.

    Args:
        series: The oldest first.
        begin: The left edge.
        end: The right edge, now.
        name: What is measured.
        unit: Its unit.
        form: Formats a value.
        limit: The measure's limit.
        marks: Events to mark.
        apart: Distance of two samples from which some between them are missing; also the age from which the
            last one is outdated.
    """
    values = [value for at, value in series if begin <= at <= end]
    last = series[-1] if values else None
    return Chart(
        name=name,
        unit=unit,
        now=form(last[1] if last else None),
        low=form(min(values, default=None)),
        high=form(max(values, default=None)),
        limit=form(limit) if limit is not None else "",
        is_old=last is not None and end - last[0] > apart,
        drawing=draw(series, begin, end, limit, apart),
        marks=marks,
    )


def left_edge(first: datetime | None, now: datetime, asked: timedelta, least: timedelta) -> datetime:
    """Return the left edge of charts, so that the first hour of a platform is not a stroke at the right edge.

    Args:
        first: The earliest sample, if there is one.
        now: The right edge.
        asked: The requested time. It is shortened only if more than half of it would be empty.
        least: The shortest time.
    """
    if first is None or now - first >= asked / 2:
        return now - asked
    return now - min(asked, max(now - first, least))


def across(at: datetime, begin: datetime, end: datetime) -> float:
    """Return the horizontal position of a time."""
    return round(WIDTH * ((at - begin) / (end - begin)), 2)


def draw(
    series: Series, begin: datetime, end: datetime, limit: float | None = None, apart: timedelta = APART
) -> Drawing | None:
    """Draw a series; None when none of it is in the time that is shown.

    Args:
        series: The oldest first. If several values share a slot, the highest is drawn, so that a short peak
            is still visible in a day.
        begin: The left edge.
        end: The right edge.
        limit: The measure's limit; drawn when the values come near it.
        apart: Distance of two samples from which some between them are missing.
    """
    shown = [(at, value) for at, value in series if begin <= at <= end]
    if not shown:
        return None
    top = max(value for _, value in shown)
    is_near = limit is not None and limit <= 2 * top
    scale = max([top, limit] if limit is not None and is_near else [top]) or 1.0
    slot = (end - begin) / _SLOTS
    drawn = [
        [(across(at, begin, end), _down(value, scale)) for at, value in _thinned(segment, slot)]
        for segment in _segments(shown, apart)
    ]
    return Drawing(
        line=" ".join(_path(points) for points in drawn),
        area=" ".join(_area(points) for points in drawn),
        gaps=_gaps(drawn, end - begin, apart),
        limit_y=_down(limit, scale) if limit is not None and is_near else None,
    )


def _segments(
    points: Sequence[tuple[datetime, float]], apart: timedelta
) -> list[list[tuple[datetime, float]]]:
    segments: list[list[tuple[datetime, float]]] = []
    for point in points:
        if segments and point[0] - segments[-1][-1][0] <= apart:
            segments[-1].append(point)
        else:
            segments.append([point])
    return segments


def _thinned(points: Sequence[tuple[datetime, float]], slot: timedelta) -> Series:
    """Return the highest value of each slot, and both ends, where gaps begin."""
    first, last = points[0], points[-1]
    highest: dict[int, tuple[datetime, float]] = {}
    for at, value in points[1:-1]:
        number = (at - first[0]) // slot
        if number not in highest or value >= highest[number][1]:
            highest[number] = (at, value)
    inner = (highest[number] for number in sorted(highest))
    return (first, *inner, last) if len(points) > 1 else (first,)


def _down(value: float, scale: float) -> float:
    room = HEIGHT - 2 * _MARGIN
    return round(HEIGHT - _MARGIN - room * max(0.0, value) / scale, 2)


def _path(points: Sequence[tuple[float, float]]) -> str:
    # A line without length, but with round ends, is a dot.
    points = points if len(points) > 1 else [points[0], points[0]]
    return "M" + " L".join(f"{x:g} {y:g}" for x, y in points)


def _area(points: Sequence[tuple[float, float]]) -> str:
    return f"{_path(points)} L{points[-1][0]:g} {HEIGHT:g} L{points[0][0]:g} {HEIGHT:g} Z"


def _gaps(
    drawn: Sequence[Sequence[tuple[float, float]]], shown: timedelta, apart: timedelta
) -> tuple[tuple[float, float], ...]:
    """Return the gaps between segments, and after the last one; none before the first one."""
    edges = [(left[-1][0], right[0][0]) for left, right in pairwise(drawn)]
    last = drawn[-1][-1][0]
    if (WIDTH - last) / WIDTH * shown > apart:
        edges.append((last, WIDTH))
    return tuple((left, round(right - left, 2)) for left, right in edges)


@dataclass(frozen=True)
class Column:
    """One column of a chart: left edge, width, top, value and label."""

    x: float
    width: float
    y: float
    value: int
    label: str


def percent(value: float, largest: float) -> float:
    """Return the length of a bar, 0 to 100."""
    return round(100 * value / largest, 2) if largest else 0.0


def columns(values: Sequence[int], name: str) -> tuple[Column, ...]:
    """Draw a column for each value; of many values, one for each run of them, as high as its highest.

    Args:
        values: By number.
        name: What the numbers count.
    """
    if not values:
        return ()
    run = -(-len(values) // _MOST_COLUMNS)
    runs = [values[begin : begin + run] for begin in range(0, len(values), run)]
    highest = max(values)
    step = 100 / len(runs)
    made = []
    for number, part in enumerate(runs):
        begin = number * run
        label = f"{name} {begin}" if len(part) == 1 else f"{name}s {begin} to {begin + len(part) - 1}"
        tall = percent(max(part), highest)
        made.append(Column(round(number * step, 3), round(step * 0.8, 3), 100 - tall, max(part), label))
    return tuple(made)
