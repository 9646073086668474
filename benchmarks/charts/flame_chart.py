"""A flame graph as SVG: roles at the bottom, the callers below what they call."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from benchmarks.charts.flame_stacks import Stacks

_WIDTH = 1200
_ROW = 15
# About what a letter of the labels takes.
_LETTER = 5.4
# Narrower is not to be seen.
_LEAST_PX = 2
# What is deeper is a call of a call of what counts.
_DEEPEST = 34
_COLOURS = {
    "Python workers": "#d1570c",
    "driver's JVM": "#2f6f9f",
    "driver's Python": "#e9b44c",
    "broker": "#7b8794",
}


@dataclass(frozen=True)
class Box:
    """A frame: where it begins and ends on the axis of time, how deep it is, whose it is, what it is."""

    begin: float
    end: float
    depth: int
    role: str
    frame: str


def boxes(stacks: Stacks, least: float) -> list[Box]:
    """Lay frames out; siblings in the order of their names, what is narrower than ``least`` left out."""
    found: list[Box] = []

    def lay(inside: Stacks, begin: float, depth: int, role: str) -> None:
        children: dict[str, Stacks] = {}
        for stack, width in inside.items():
            if stack:
                children.setdefault(stack[0], defaultdict(float))[stack[1:]] += width
        # Roles and threads by weight, so that what matters comes first; calls by name, as is usual.
        order = sorted(children, key=lambda frame: -sum(children[frame].values()) if depth < 2 else frame)
        for frame in order:
            width = sum(children[frame].values())
            if width >= least and depth < _DEEPEST:
                found.append(Box(begin, begin + width, depth, role or frame, frame))
                lay(children[frame], begin, depth + 1, role or frame)
            begin += width

    lay(stacks, 0.0, 0, "")
    return found


def draw_flames(stacks: Stacks, path: Path, title: str) -> None:
    """Write the picture; widths are microseconds of CPU time."""
    import altair as alt

    total = sum(stacks.values())
    laid = boxes(stacks, total / _WIDTH * _LEAST_PX)
    deepest = max(box.depth for box in laid)
    rows = [
        {
            "begin": box.begin,
            "end": box.end,
            "low": box.depth,
            "high": box.depth + 0.94,
            "role": box.role,
            "label": _label(box.frame, (box.end - box.begin) / total * _WIDTH),
        }
        for box in laid
    ]
    y = alt.Y("low:Q", axis=None, scale=alt.Scale(domain=[0, deepest + 1], nice=False))
    x = alt.X("begin:Q", title="µs of CPU time per record", scale=alt.Scale(domain=[0, total], nice=False))
    colours = alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values()))
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y)
    frames = base.mark_rect(stroke="white", strokeWidth=0.5).encode(
        x2="end:Q",
        y2="high:Q",
        color=alt.Color("role:N", scale=colours, legend=alt.Legend(title=None, orient="top")),
    )
    labels = base.mark_text(align="left", baseline="bottom", dx=2, dy=-2, fontSize=9).encode(text="label:N")
    chart = (frames + labels).properties(
        title=title, width=_WIDTH, height=_ROW * (deepest + 1), background="white"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    chart.save(str(path))


def _label(frame: str, width_px: float) -> str:
    letters = int((width_px - 4) / _LETTER)
    if letters < 3:
        return ""
    return frame if len(frame) <= letters else frame[: letters - 1] + "…"
