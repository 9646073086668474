"""ISO 8601 texts to milliseconds since 1970 UTC: exact, strict, and mostly looked up.

The times of a stream share their minutes, and there are only so many ways to end one. So a text is cut in
two, ``2024-01-01T12:34:`` and ``56.789Z``, each part is parsed once, and what is left per record is two
look-ups and an addition.
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
# About 10 MB when full. Every rest of up to three decimals in one zone fits in.
_CAPACITY = 65_536


class Instants:
    """Reads times, and remembers the parts it has read.

    Attributes:
        minutes: The first `MINUTE_LENGTH` characters of a time to milliseconds; raises a ValueError
            if they are none.
        rests: Likewise what comes after them.
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
            ValueError: There is no such time, or the text is written in another way.
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
        # Cut off, not rounded: the decimals count forward before 1970 too.
        in_second = int((fraction or "0")[:3].ljust(3, "0"))
        return _remember(self, text, int(second) * 1000 + in_second - offset * 60_000)


def _remember(known: dict[str, int], text: str, milliseconds: int) -> int:
    if len(known) >= _CAPACITY:
        known.clear()
    known[text] = milliseconds
    return milliseconds
