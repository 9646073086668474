"""The charts of one stream: its measures over the last hours, with what went wrong marked on them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from include.web import figures, stream_history
from include.web.charts import Drawing, across, draw
from include.web.incidents import Incident
from include.web.stream_history import Sample, Series

_FRESH = timedelta(minutes=3)


@dataclass(frozen=True)
class Mark:
    """An incident on a chart: how far to the right, and what it was."""

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
    marks: tuple[Mark, ...]

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


def charts(
    samples: Sequence[Sample],
    happened: Sequence[Incident],
    now: datetime,
    shown: timedelta,
    max_lag: float | None,
) -> tuple[Chart, ...]:
    """Draw lag, throughput, watermark delay and state size.

    Args:
        samples: The oldest first.
        happened: What is marked on each of them.
        now: The right edge.
        shown: How much is drawn, up to `now`.
        max_lag: From which lag on there is a warning, if there is one; records.
    """
    begin = now - shown
    marks = tuple(
        Mark(across(one.at, begin, now), one.is_failure, f"{one.kind} at {figures.moment(one.at, now)}")
        for one in happened
        if begin <= one.at <= now
    )

    def chart(
        name: str, unit: str, series: Series, told: Callable[[float | None], str], limit: float | None = None
    ) -> Chart:
        values = [value for at, value in series if begin <= at <= now]
        last = series[-1] if values else None
        return Chart(
            name=name,
            unit=unit,
            now=told(last[1] if last else None),
            low=told(min(values, default=None)),
            high=told(max(values, default=None)),
            limit=told(limit) if limit is not None else "",
            is_old=last is not None and now - last[0] > _FRESH,
            drawing=draw(series, begin, now, limit),
            marks=marks,
        )

    return (
        chart("Lag", "records", stream_history.lag(samples), figures.count, max_lag),
        chart("Throughput", "records a second", stream_history.throughput(samples), figures.rate),
        chart("Watermark delay", "", stream_history.watermark_delay(samples), figures.span),
        chart("State size", "in memory", stream_history.state_bytes(samples), figures.room),
    )
