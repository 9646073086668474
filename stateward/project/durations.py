"""Durations as people write them: `30m`, `1h30m`, `250ms`."""

import re
from datetime import timedelta

from stateward.contract.stream_settings import UNITS, duration_text
from stateward.project.unexpected_value import UnexpectedValueError

EXAMPLE = "a duration such as 500ms, 15s, 30m, 24h, 7d or 1h30m"
PATTERN = r"^([0-9]+(ms|d|h|m|s))+$"

_PART = re.compile(r"([0-9]+)(ms|d|h|m|s)")
_WHOLE = re.compile(PATTERN)
_UNIT_MS = dict(UNITS)


def is_duration(value: object) -> bool:
    """Tell whether `value` is written as a duration, and not as any other text."""
    return isinstance(value, str) and _WHOLE.match(value.strip()) is not None


def parse_duration(value: object) -> timedelta:
    """Read a duration.

    Args:
        value: Text such as `1h30m`, or a `timedelta`, which is returned as it is.

    Returns:
        The duration, in whole milliseconds.

    Raises:
        ValueError: `value` is anything else; a number without a unit is refused, because
            half of all configuration accidents are seconds taken for milliseconds.
    """
    if isinstance(value, timedelta):
        return value
    if not is_duration(value):
        raise UnexpectedValueError(EXAMPLE)
    parts = _PART.findall(str(value))
    try:
        return timedelta(milliseconds=sum(int(number) * _UNIT_MS[unit] for number, unit in parts))
    except OverflowError:
        raise UnexpectedValueError(f"{EXAMPLE}, at most 999999999d") from None


def to_ms(duration: timedelta) -> int:
    """Convert a duration to whole milliseconds."""
    return duration // timedelta(milliseconds=1)


def format_duration(duration: timedelta) -> str:
    """Write a duration the way `parse_duration` reads it, largest units first."""
    return duration_text(to_ms(duration))
