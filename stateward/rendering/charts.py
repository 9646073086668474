"""Charts: what each says, and where its marks go. Pure.

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
"""Drivers give a sample a minute: of two that are farther apart some between are missing."""


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
    """Something that happened, on a chart: how far to the right, and what it was."""

    x: float
    is_failure: bool
    label: str


@dataclass(frozen=True)
class Chart:
    """One measure over time. `now` is the last value; `is_old` says that it is not of now."""

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
        """The chart in words, for who cannot see it."""
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
    told: Callable[[float | None], str],
    limit: float | None = None,
    marks: tuple[Mark, ...] = (),
    apart: timedelta = APART,
) -> Chart:
    """Make the chart of a series.

    Args:
        series: The oldest first.
        begin: The left edge.
        end: The right edge, now.
        name: What is measured.
        unit: In what.
        told: A value as a person reads it.
        limit: A value not to be exceeded.
        marks: What happened meanwhile.
        apart: How far apart two samples are when some between them are missing; an older last one is old.
    """
    values = [value for at, value in series if begin <= at <= end]
    last = series[-1] if values else None
    return Chart(
        name=name,
        unit=unit,
        now=told(last[1] if last else None),
        low=told(min(values, default=None)),
        high=told(max(values, default=None)),
        limit=told(limit) if limit is not None else "",
        is_old=last is not None and end - last[0] > apart,
        drawing=draw(series, begin, end, limit, apart),
        marks=marks,
    )


def left_edge(first: datetime | None, now: datetime, asked: timedelta, least: timedelta) -> datetime:
    """Where charts begin, so that the first hour of a platform is not a stroke at their right edge.

    Args:
        first: The earliest of what is drawn, if there is anything.
        now: The right edge.
        asked: How much is to be drawn. It is, unless more than half of it would be empty.
        least: What is drawn at least.
    """
    if first is None or now - first >= asked / 2:
        return now - asked
    return now - min(asked, max(now - first, least))


def across(at: datetime, begin: datetime, end: datetime) -> float:
    """How far to the right a time is."""
    return round(WIDTH * ((at - begin) / (end - begin)), 2)


def draw(
    series: Series, begin: datetime, end: datetime, limit: float | None = None, apart: timedelta = APART
) -> Drawing | None:
    """Draw a series; None when none of it is in the time that is shown.

    Args:
        series: The oldest first. Of several values that share a place the highest is drawn, so that
            a short peak is still there in a day.
        begin: The left edge.
        end: The right edge.
        limit: A value not to be exceeded; drawn when the values come near it.
        apart: How far apart two samples are when some between them are missing.
    """
    shown = [(at, value) for at, value in series if begin <= at <= end]
    if not shown:
        return None
    top = max(value for _, value in shown)
    is_near = limit is not None and limit <= 2 * top
    scale = max([top, limit] if limit is not None and is_near else [top]) or 1.0
    slot = (end - begin) / _SLOTS
    drawn = [
        [(across(at, begin, end), _down(value, scale)) for at, value in _thinned(stretch, slot)]
        for stretch in _stretches(shown, apart)
    ]
    return Drawing(
        line=" ".join(_path(points) for points in drawn),
        area=" ".join(_area(points) for points in drawn),
        gaps=_gaps(drawn, end - begin, apart),
        limit_y=_down(limit, scale) if limit is not None and is_near else None,
    )


def _stretches(
    points: Sequence[tuple[datetime, float]], apart: timedelta
) -> list[list[tuple[datetime, float]]]:
    stretches: list[list[tuple[datetime, float]]] = []
    for point in points:
        if stretches and point[0] - stretches[-1][-1][0] <= apart:
            stretches[-1].append(point)
        else:
            stretches.append([point])
    return stretches


def _thinned(points: Sequence[tuple[datetime, float]], slot: timedelta) -> Series:
    """The highest of each slot; the ends stay, for what is missing beyond them begins there."""
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
    # A line of no length with round ends is a dot.
    points = points if len(points) > 1 else [points[0], points[0]]
    return "M" + " L".join(f"{x:g} {y:g}" for x, y in points)


def _area(points: Sequence[tuple[float, float]]) -> str:
    return f"{_path(points)} L{points[-1][0]:g} {HEIGHT:g} L{points[0][0]:g} {HEIGHT:g} Z"


def _gaps(
    drawn: Sequence[Sequence[tuple[float, float]]], shown: timedelta, apart: timedelta
) -> tuple[tuple[float, float], ...]:
    """Between two stretches, and after the last one; before the first one nothing was missing."""
    edges = [(left[-1][0], right[0][0]) for left, right in pairwise(drawn)]
    last = drawn[-1][-1][0]
    if (WIDTH - last) / WIDTH * shown > apart:
        edges.append((last, WIDTH))
    return tuple((left, round(right - left, 2)) for left, right in edges)


@dataclass(frozen=True)
class Column:
    """One column of a column chart: its left edge, width and top, and what it stands for."""

    x: float
    width: float
    y: float
    value: int
    label: str


def percent(value: float, largest: float) -> float:
    """The length of a bar, 0 to 100."""
    return round(100 * value / largest, 2) if largest else 0.0


def columns(values: Sequence[int], name: str) -> tuple[Column, ...]:
    """A column for each value; of very many, a column for each run of them, as high as the highest in it.

    Args:
        values: By number.
        name: What is numbered.
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
