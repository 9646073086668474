"""The chart of one series."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.bench.report import Line


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
            "whose": "Stateward" if line.name.startswith("stateward") else "others",
        }
        for line in lines
        if line.events_per_s
    ]
    # Room for the label at the end of the longest bar.
    scale = alt.Scale(domain=[0, 1.15 * max((row["most"] for row in rows), default=1)])
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
