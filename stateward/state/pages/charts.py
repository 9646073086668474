"""Where the marks of a chart go, in its own coordinates: 0 to 100 across and 0 to 100 down. Pure.

Text stays out of the drawings, so that it keeps its size on a phone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_MOST_COLUMNS = 128


@dataclass(frozen=True)
class Column:
    """One column of a column chart: its left edge, width and top, and what it stands for."""

    x: float
    width: float
    y: float
    value: int
    label: str


@dataclass(frozen=True)
class Line:
    """A line chart: its points, and the line through them from left to right."""

    points: tuple[tuple[float, float], ...]
    path: str


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


def line(points: Sequence[tuple[float, float]]) -> Line | None:
    """A line through points, scaled to the drawing; 0 is at the bottom. None of fewer than two."""
    if len(points) < 2:
        return None
    first, last = points[0][0], points[-1][0]
    highest = max(value for _, value in points) or 1
    width = (last - first) or 1
    scaled = tuple(
        (round(100 * (at - first) / width, 2), round(96 - 92 * value / highest, 2)) for at, value in points
    )
    return Line(scaled, "M" + " L".join(f"{x} {y}" for x, y in scaled))
