"""A simulated month as a picture: the load, the size of the state, and the partitions that follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

from proof.care.month import Day
from stateward.rendering.charts import HEIGHT, WIDTH, Series, across, draw
from stateward.rendering.human_units import format_bytes, format_count

_APART = timedelta(days=2)
_LEFT, _WIDE, _TALL, _BETWEEN = 190, 620, 110, 34


def write(days: Sequence[Day], path: Path) -> None:
    """Write a chart for each of the three, one below the other, as SVG; a stroke marks each move."""
    rows: list[tuple[str, Series, Callable[[float], str]]] = [
        ("load, times the first day's", tuple((one.at, one.load) for one in days), format_count),
        ("size of the state", tuple((one.at, float(one.state_bytes)) for one in days), format_bytes),
        ("partitions", _steps(days), format_count),
    ]
    tall = len(rows) * (_TALL + _BETWEEN) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDE + 20} {tall}"'
        ' font-family="sans-serif" font-size="13" fill="#24303c">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, (name, series, form) in enumerate(rows):
        top = 20 + number * (_TALL + _BETWEEN)
        parts += _row(name, series, form, days, top)
    path.write_text("\n".join([*parts, *_axis(days, tall - 14), "</svg>", ""]), encoding="utf-8")


def _steps(days: Sequence[Day]) -> Series:
    """The partitions as steps: a number stays until the moment of the next."""
    points = [(days[0].at, float(days[0].partitions))]
    for one in days[1:]:
        points += [(one.at - timedelta(seconds=1), points[-1][1]), (one.at, float(one.partitions))]
    return tuple(points)


def _row(name: str, series: Series, form: Callable[[float], str], days: Sequence[Day], top: int) -> list[str]:
    begin, end = days[0].at, days[-1].at
    drawing = draw(series, begin, end, apart=_APART)
    assert drawing is not None, f"{name}: no values"
    values = [value for _, value in series]
    scale = f"translate({_LEFT} {top}) scale({_WIDE / WIDTH} {_TALL / HEIGHT})"
    moves = [across(one.at, begin, end) for one in days if one.has_moved]
    marks = "".join(f'<path d="M{x:g} 0V{HEIGHT:g}" stroke="#c2571a" stroke-width="0.25"/>' for x in moves)
    return [
        f'<text x="0" y="{top + 16}" font-weight="bold">{name}</text>',
        f'<text x="0" y="{top + 36}">lowest {form(min(values))}</text>',
        f'<text x="0" y="{top + 54}">highest {form(max(values))}</text>',
        f'<g transform="{scale}">',
        f'<path d="{drawing.area}" fill="#dfe8f1"/>',
        f'<path d="{drawing.line}" fill="none" stroke="#2c6aa0" stroke-width="0.5"/>',
        marks,
        "</g>",
    ]


def _axis(days: Sequence[Day], bottom: int) -> list[str]:
    begin, end = days[0].at, days[-1].at
    return [
        f'<text x="{_LEFT + across(one.at, begin, end) * _WIDE / WIDTH:g}" y="{bottom}" text-anchor="middle">'
        f"{number}</text>"
        for number, one in enumerate(days)
        if number % 7 == 0
    ] + [f'<text x="0" y="{bottom}">day; a stroke: a repartition</text>']
