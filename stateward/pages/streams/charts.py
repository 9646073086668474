"""The charts of one stream: measures over the last hours, with marks for incidents. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from stateward.pages.streams import history
from stateward.pages.streams.history import Sample
from stateward.pages.streams.incidents import Incident
from stateward.rendering.charts import Chart, Mark, Series, across, chart_of
from stateward.rendering.human_units import (
    format_bytes,
    format_count,
    format_duration,
    format_rate,
    format_time,
)


def charts(
    samples: Sequence[Sample],
    happened: Sequence[Incident],
    begin: datetime,
    now: datetime,
    max_lag: float | None,
) -> tuple[Chart, ...]:
    """Draw lag, throughput, watermark delay and state size.

    Args:
        samples: The oldest first.
        happened: Incidents to mark on each chart.
        begin: The left edge.
        now: The right edge.
        max_lag: The warning limit of the lag, if there is one; records.
    """
    marks = tuple(
        Mark(
            across(one.at, begin, now),
            one.is_failure,
            f"{one.kind} at {format_time(one.at, now)}",
        )
        for one in happened
        if begin <= one.at <= now
    )

    def chart(
        name: str, unit: str, series: Series, form: Callable[[float | None], str], limit: float | None = None
    ) -> Chart:
        return chart_of(series, begin, now, name=name, unit=unit, form=form, limit=limit, marks=marks)

    return (
        chart("Lag", "records", history.lag(samples), format_count, max_lag),
        chart("Throughput", "records a second", history.throughput(samples), format_rate),
        chart("Watermark delay", "", history.watermark_delay(samples), format_duration),
        chart("State size", "in memory", history.state_bytes(samples), format_bytes),
    )
