"""Parses ISO 8601 times to milliseconds since 1970 UTC: exact, strict and cached.

Many times of a stream share the same minute, and the rest has few variants. So a text is split in two,
``2024-01-01T12:34:`` and ``56.789Z``, and each part is parsed once: a record costs two look-ups and an
addition.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

_MINUTE = re.compile(r"(\d{4})-(\d{2})-(\d{2})[T ](\d{2}):(\d{2}):", re.ASCII)
_REST = re.compile(r"(\d{2})(?:\.(\d{1,9}))?(?:Z|([+-])(\d{2}):?(\d{2}))", re.ASCII)
MINUTE_LENGTH: Final = len("2024-01-01T12:34:")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_OFFSET_MINUTES = 18 * 60
# About 10 MB when full; enough for every rest with up to three decimals in one zone.
_CAPACITY = 65_536


class Instants:
    """Parses times and caches their parts.

    Attributes:
        minutes: From the first `MINUTE_LENGTH` characters of a time to milliseconds; raises a ValueError
            if they are invalid.
        rests: The same for the rest of the text.
    """

    __slots__ = ("minutes", "rests")

    def __init__(self) -> None:
        self.minutes: dict[str, int] = _Minutes()
        self.rests: dict[str, int] = _Rests()

    def milliseconds(self, text: str) -> int:
        """The instant, rounded down to milliseconds.

        Args:
            text: ``YYYY-MM-DD``, ``T`` or a space, ``hh:mm:ss``, at most nine decimals, and ``Z`` or
                an offset of at most 18 hours, with or without a colon.

        Raises:
            ValueError: There is no such time, or the format is different.
        """
        return self.minutes[text[:MINUTE_LENGTH]] + self.rests[text[MINUTE_LENGTH:]]


class _Minutes(dict[str, int]):
    def __missing__(self, text: str) -> int:
        match = _MINUTE.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not the date, hour and minute of a time")
        since = datetime(*map(int, match.groups()), tzinfo=UTC) - _EPOCH  # type: ignore[misc, arg-type]
        return _remember(self, text, (since.days * 86_400 + since.seconds) * 1000)


class _Rests(dict[str, int]):
    def __missing__(self, text: str) -> int:
        match = _REST.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not the second and the zone of a time")
        second, fraction, sign, hours, minutes = match.groups()
        offset = int(hours) * 60 + int(minutes) if sign else 0
        if int(second) > 59 or offset > _MAX_OFFSET_MINUTES or (sign and int(minutes) > 59):
            raise ValueError(f"{text!r}: no such second or zone")
        if sign == "-":
            offset = -offset
        # Truncated, not rounded; also before 1970 the decimals count forward.
        in_second = int((fraction or "0")[:3].ljust(3, "0"))
        return _remember(self, text, int(second) * 1000 + in_second - offset * 60_000)


def _remember(known: dict[str, int], text: str, milliseconds: int) -> int:
    if len(known) >= _CAPACITY:
        known.clear()
    known[text] = milliseconds
    return milliseconds
