"""The charts of the benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.report import Line

_OURS = ("stateward", "session_windows", "fraud_watch")


def draw(lines: Sequence[Line], path: Path, title: str) -> None:
    """Write one bar of events per second per contestant that had a right run, as SVG, with its range."""
    import altair as alt

    rows = [
        {
            "contestant": line.name,
            "events per second": line.events_per_s.median,
            "least": line.events_per_s.least,
            "most": line.events_per_s.most,
            "label": f"{line.events_per_s.median:,.0f}",
            "whose": "Stateward" if line.name.startswith(_OURS) else "others",
        }
        for line in lines
        if line.events_per_s
    ]
    # Room for the label at the end of the longest bar.
    longest = max((line.events_per_s.most for line in lines if line.events_per_s), default=1.0)
    scale = alt.Scale(domain=[0, 1.15 * longest])
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("contestant:N", sort=None, title=None), x=alt.X("events per second:Q", scale=scale)
    )
    colours = alt.Scale(domain=["Stateward", "others"], range=["#d1570c", "#7b8794"])
    bars = base.mark_bar().encode(color=alt.Color("whose:N", scale=colours, legend=None))
    ranges = base.mark_rule(strokeWidth=2).encode(x=alt.X("least:Q", title="events per second"), x2="most:Q")
    labels = base.mark_text(align="left", dx=6, dy=-8).encode(text="label:N")
    path.parent.mkdir(parents=True, exist_ok=True)
    chart = (bars + ranges + labels).properties(
        title=title, width=620, height=alt.Step(34), background="white"
    )
    chart.save(str(path))


def draw_shares(runs: Sequence[tuple[str, Mapping[str, float]]], path: Path, title: str) -> None:
    """Write one bar per run, made of its shares by name, as SVG."""
    import altair as alt

    rows = [
        {"run": run, "role": role, "order": order, title: share}
        for run, shares in runs
        for order, (role, share) in enumerate(shares.items())
    ]
    colours = alt.Scale(range=["#7b8794", "#2f6f9f", "#e9b44c", "#d1570c"])
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            y=alt.Y("run:N", sort=None, title=None, axis=alt.Axis(labelLimit=260)),
            x=alt.X(f"{title}:Q", title=title),
            color=alt.Color("role:N", sort=None, scale=colours, legend=alt.Legend(title=None, orient="top")),
            order="order:O",
        )
        .properties(width=620, height=alt.Step(30), background="white")
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    chart.save(str(path))
