"""Durations as a person writes them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from include.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("250ms", timedelta(milliseconds=250)),
        ("15s", timedelta(seconds=15)),
        ("1h30m", timedelta(minutes=90)),
        ("7d", timedelta(days=7)),
    ],
)
def test_durations_are_read_and_written(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration
    assert format_duration(duration) == text


@pytest.mark.parametrize("text", ["", "m", "5", "5 m", "-5m", "1.5h", "5M", 5, None, "9" * 30 + "d"])
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="expected a duration such as"):
        parse_duration(text)
