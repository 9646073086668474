"""Charts, and numbers as people read them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from stateward.rendering import human_units
from stateward.rendering.charts import columns, draw, left_edge

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
        (human_units.format_duration(0.25), "250 ms"),
        (human_units.format_duration(1.5), "1.5 s"),
        (human_units.format_duration(12.0), "12 s"),
        (human_units.format_duration(59.97), "1 min"),
        (human_units.format_duration(125), "2 min 5 s"),
        (human_units.format_duration(5400), "1 h 30 min"),
        (human_units.format_duration(86_460), "1 d"),
        (human_units.format_duration(90_000), "1 d 1 h"),
        (human_units.format_duration(-61), "−1 min 1 s"),
        (human_units.format_duration(0), "0 s"),
        (human_units.format_duration(None), "–"),
        (human_units.format_count(12_345), "12,345"),
        (human_units.format_count(12_345_678), "12.3 M"),
        (human_units.format_count(10.0), "10"),
        (human_units.format_count(12.34), "12.3"),
        (human_units.format_count(0.25), "0.25"),
        (human_units.format_percent(1.23), "1.2 %"),
        (human_units.format_rate(0.0), "0 /s"),
        (human_units.format_rate(0.5), "0.5 /s"),
        (human_units.format_rate(12.3), "12 /s"),
        (human_units.format_bytes(999), "999 B"),
        (human_units.format_bytes(1500), "1.5 kB"),
        (human_units.format_bytes(5 * 10**9), "5.0 GB"),
        (human_units.format_bytes(None), "–"),
        (human_units.format_timestamp(0), "1970-01-01 00:00:00"),
        (human_units.format_timestamp(1500), "1970-01-01 00:00:01.500"),
        (human_units.format_timestamp(10**18), "never"),
        (human_units.format_timestamp(None), "–"),
        (human_units.format_ago(NOW - 125 * timedelta(seconds=1), NOW), "2 min ago"),
        (human_units.format_ago(NOW - timedelta(seconds=3.4), NOW), "3 s ago"),
        (human_units.format_ago(NOW + MINUTE, NOW), "now"),
        (human_units.format_time(NOW - timedelta(days=1), NOW), "02 Feb 14:30:00"),
        (human_units.format_time(NOW, NOW), "14:30:00"),
    ],
)
def test_figures(shown: str, expected: str) -> None:
    assert shown == expected


def test_many_columns_are_drawn_as_runs_of_them() -> None:
    assert [column.label for column in columns([1, 2], "bucket")] == ["bucket 0", "bucket 1"]
    made = columns([0] * 1000 + [7], "bucket")
    assert len(made) <= 128
    assert (made[-1].value, made[-1].y, made[0].y) == (7, 0, 100)
    assert made[0].label == "buckets 0 to 7"
    assert columns([], "bucket") == ()
    assert columns([0, 0], "bucket")[0].y == 100
