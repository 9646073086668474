"""Charts and figures of the operator's page."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from stateward.pages import human_units
from stateward.pages.charts import draw, left_edge

NOW = datetime(2026, 2, 3, 14, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def test_a_peak_of_a_minute_is_still_there_in_a_day() -> None:
    series = tuple((NOW - n * MINUTE, 1000.0 if n == 700 else 1.0) for n in range(1440, -1, -1))
    drawing = draw(series, NOW - timedelta(hours=24), NOW)

    assert drawing is not None and drawing.gaps == ()
    heights = [float(point.split()[1]) for point in re.split("[ML] ?", drawing.line) if point.strip()]
    assert len(heights) <= 122
    assert min(heights) == 2


def test_a_chart_of_nothing_of_one_and_of_nought() -> None:
    begin = NOW - timedelta(hours=1)

    assert draw((), begin, NOW) is None
    assert draw(((begin - MINUTE, 5.0),), begin, NOW) is None
    dot = draw(((NOW, 5.0),), begin, NOW)
    assert dot is not None and dot.line == "M100 2 L100 2"
    flat = draw(((NOW - MINUTE, 0.0), (NOW, 0.0)), begin, NOW, limit=100)
    assert flat is not None and flat.limit_y is None and "38" in flat.line


@pytest.mark.parametrize(
    ("hours_ago", "hours_shown"),
    [(None, 24), (200, 24), (13, 24), (12, 24), (11, 11), (2, 2), (0.1, 1), (0, 1)],
    ids=str,
)
def test_the_charts_of_a_young_platform_begin_where_it_began(
    hours_ago: float | None, hours_shown: float
) -> None:
    hour = timedelta(hours=1)
    first = None if hours_ago is None else NOW - hours_ago * hour
    assert left_edge(first, NOW, 24 * hour, hour) == NOW - hours_shown * hour


def test_no_more_is_shown_than_was_asked_for() -> None:
    assert left_edge(NOW, NOW, 10 * MINUTE, timedelta(hours=1)) == NOW - 10 * MINUTE


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (human_units.span(0.25), "250 ms"),
        (human_units.span(59.7), "1 min"),
        (human_units.span(125), "2 min 5 s"),
        (human_units.span(90_000), "1 d 1 h"),
        (human_units.span(-60), "−1 min"),
        (human_units.span(None), "–"),
        (human_units.count(12_345), "12,345"),
        (human_units.count(12_345_678), "12.3 M"),
        (human_units.rate(0.0), "0 /s"),
        (human_units.rate(0.5), "0.5 /s"),
        (human_units.format_bytes(1_500_000), "1.5 MB"),
        (human_units.ago(NOW - 125 * timedelta(seconds=1), NOW), "2 min ago"),
        (human_units.ago(NOW + MINUTE, NOW), "now"),
        (human_units.moment(NOW - timedelta(days=1), NOW), "02 Feb 14:30:00"),
        (human_units.moment(NOW, NOW), "14:30:00"),
    ],
)
def test_figures(shown: str, expected: str) -> None:
    assert shown == expected
