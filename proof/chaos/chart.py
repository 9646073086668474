"""A run as a chart: the faults, and the times without progress of each stream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from proof.chaos.progress import Gap, Hit

# Batches take a second or two; a shorter gap is normal.
_SHORTEST_S = 5.0


def draw(hits: Iterable[Hit], gaps: Iterable[Gap], streams: Sequence[str], path: Path) -> None:
    """Write a bar for each gap and a stroke for each fault, over the minutes of the run, as SVG."""
    import altair as alt

    minutes = alt.X("minute:Q", title="minutes")
    rows = alt.Y("row:N", title=None, sort=["faults", *streams])
    strokes = alt.Chart(alt.InlineData(values=_strokes(hits))).mark_tick(thickness=2, size=22)
    bars = alt.Chart(alt.InlineData(values=_bars(gaps))).mark_bar(height=14, color="#c3cbd3")
    colours = alt.Scale(scheme="category10")
    legend = alt.Legend(title=None, orient="top", columns=5)
    chart = (
        bars.encode(x=minutes, x2="until:Q", y=rows)
        + strokes.encode(x=minutes, y=rows, color=alt.Color("fault:N", scale=colours, legend=legend))
    ).properties(
        title=f"Standstills of more than {_SHORTEST_S:.0f} s, and what had died",
        width=820,
        height=alt.Step(30),
        background="white",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    chart.save(str(path))


def _strokes(hits: Iterable[Hit]) -> list[dict[str, Any]]:
    return [{"minute": hit.at_s / 60, "row": hit.stream or "faults", "fault": hit.kind} for hit in hits]


def _bars(gaps: Iterable[Gap]) -> list[dict[str, Any]]:
    return [
        {"minute": gap.since_s / 60, "until": gap.until_s / 60, "row": gap.stream}
        for gap in gaps
        if gap.seconds > _SHORTEST_S
    ]
