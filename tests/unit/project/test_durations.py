"""Durations as a person writes them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from stateward.project.durations import format_duration, parse_duration
from stateward.project.unexpected_value import UnexpectedValueError


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


def test_what_was_expected_is_a_field_of_the_error() -> None:
    with pytest.raises(UnexpectedValueError) as refused:
        parse_duration("5 m")
    assert str(refused.value) == f"expected {refused.value.expected}"
    assert refused.value.expected.startswith("a duration such as")
