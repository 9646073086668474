"""The moves of a run as a table and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proof.care.measured_moves import Move, Outcome

if TYPE_CHECKING:
    import altair

_COLUMNS = (
    "partitions",
    "keys",
    "state, MB",
    "pause expected, s",
    "no batch for, s",
    "whole operation, s",
    "repartition and proof, s",
    "written, MB",
)
_BEFORE, _AFTER = (
    "<!-- written by `python -m proof.care --platform`: do not edit below -->\n",
    "<!-- end of what is written -->\n",
)


def table(moves: Sequence[Move]) -> str:
    """The moves as a table, Markdown."""
    lines = [f"| {' | '.join(_COLUMNS)} |", f"|{'---|' * len(_COLUMNS)}"]
    lines += [f"| {' | '.join(_row(move))} |" for move in moves]
    return "\n".join(lines) + "\n"


def _row(move: Move) -> Sequence[str]:
    return (
        f"{move.before} → {move.after}",
        f"{move.keys:,}",
        f"{move.state_bytes / 1e6:.1f}",
        f"{move.expected_s:.0f}",
        f"{move.pause_s:.0f}",
        f"{move.operation_s:.0f}",
        f"{sum(move.steps.values()):.1f}",
        f"{move.written_bytes / 1e6:.1f}",
    )


def write_page(outcome: Outcome, page: Path, about: str) -> None:
    """Put the table into the page, in place of the last one.

    Args:
        outcome: The run.
        page: A page that has the two marks.
        about: A sentence about the run.
    """
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEFORE)
    _, _, after = rest.partition(_AFTER)
    written = f"\n{table(outcome.moves)}\n{about}\n\n"
    page.write_text(f"{before}{_BEFORE}{written}{_AFTER}{after}", encoding="utf-8")


def draw(outcome: Outcome, path: Path) -> None:
    """Draw the live keys, the partitions and the pauses over the minutes of a run, as SVG."""
    import altair as alt

    ended = [(one.at + timedelta(seconds=one.operation_s), float(one.after)) for one in outcome.moves]
    ends = max(at for at, _ in [*outcome.keys, *ended])
    span = alt.Scale(domain=[0, _minute(outcome, ends)])
    minutes = alt.X("minute:Q", title=None, scale=span)
    keys = _steps(alt, _points(outcome, outcome.keys, ends), minutes, "live keys", "#2c6aa0")
    partitions = _steps(
        alt,
        _points(outcome, [(outcome.began, float(outcome.moves[0].before)), *ended], ends),
        minutes,
        "partitions",
        "#24303c",
    )
    bars = alt.Chart(alt.InlineData(values=[_bar(outcome, move) for move in outcome.moves]))
    x = alt.X("minute:Q", title="minutes; a day has two", scale=span)
    pauses = (
        bars.mark_bar(width=16, color="#c2571a").encode(x=x, y=alt.Y("pause:Q", title="seconds"))
        + bars.mark_tick(orient="horizontal", width=22, thickness=2, color="#24303c").encode(
            x=x, y="expected:Q"
        )
        + bars.mark_text(dy=-8, fontSize=12).encode(x=x, y="top:Q", text="label:N")
    ).properties(title="Pause of each move; a stroke: what was expected", width=720, height=150)
    chart = alt.vconcat(keys, partitions, pauses).configure_view(stroke=None).properties(background="white")
    path.parent.mkdir(parents=True, exist_ok=True)
    chart.save(str(path))


def _steps(alt: Any, points: Sequence[dict[str, float]], x: altair.X, title: str, color: str) -> altair.Chart:
    chart: altair.Chart = (
        alt.Chart(alt.InlineData(values=points))
        .mark_line(interpolate="step-after", color=color)
        .encode(x=x, y=alt.Y("value:Q", title=None))
        .properties(title=title, width=720, height=110)
    )
    return chart


def _points(
    outcome: Outcome, series: Sequence[tuple[datetime, float]], ends: datetime
) -> list[dict[str, float]]:
    # Each value holds until the next one; those from before the first level are at its start.
    points = [{"minute": max(0.0, _minute(outcome, at)), "value": value} for at, value in series]
    return [*points, {"minute": _minute(outcome, ends), "value": points[-1]["value"]}]


def _bar(outcome: Outcome, move: Move) -> dict[str, Any]:
    return {
        "minute": _minute(outcome, move.at),
        "pause": move.pause_s,
        "expected": move.expected_s,
        "top": max(move.pause_s, move.expected_s),
        "label": f"{move.before} to {move.after}: {move.pause_s:.0f} s",
    }


def _minute(outcome: Outcome, at: datetime) -> float:
    return (at - outcome.began).total_seconds() / 60
