"""Figures as a person reads them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

NOTHING = "–"
_BYTES = ("B", "kB", "MB", "GB", "TB")
_SPANS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def count(number: float | None) -> str:
    """A number with its thousands apart, `12,345`; a large one shortened, `12.3 M`."""
    if number is None:
        return NOTHING
    if abs(number) >= 1e9:
        return f"{number / 1e9:,.1f} G"
    if abs(number) >= 1e6:
        return f"{number / 1e6:,.1f} M"
    return f"{number:,.0f}"


def percent(number: float | None) -> str:
    """A share, which is 0 % or 100 % only if it is exactly that: `99.9 %`, `0.02 %`."""
    if number is None:
        return NOTHING
    if 0 < number < 0.1:
        return f"{number:.2g} %" if number >= 0.001 else "< 0.001 %"
    if 99.9 < number < 100:
        return "> 99.9 %"
    return f"{number:.1f}".removesuffix(".0") + " %"


def rate(per_second: float | None) -> str:
    """Records a second: `1,200 /s`; of few one decimal."""
    if per_second is None:
        return NOTHING
    return f"{per_second:.1f} /s" if 0 < per_second < 10 else f"{count(per_second)} /s"


def format_bytes(size: float | None) -> str:
    """Bytes in decimal units: `1.5 MB`."""
    if size is None:
        return NOTHING
    for unit in _BYTES:
        if abs(size) < 999.5 or unit == _BYTES[-1]:
            return f"{size:,.0f} {unit}" if unit == "B" or abs(size) >= 100 else f"{size:,.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable: the last unit takes any size")


def span(seconds: float | None) -> str:
    """A duration by its two largest units: `1 h 30 min`, `2 min 5 s`, `850 ms`."""
    if seconds is None:
        return NOTHING
    if abs(seconds) < 1:
        return f"{seconds * 1000:.0f} ms" if seconds else "0 s"
    sign, left = ("−", -seconds) if seconds < 0 else ("", seconds)
    left = round(left)
    parts: list[str] = []
    for unit, size in _SPANS:
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number} {unit}")
        if len(parts) == 2 or (parts and not number):
            break
    return sign + " ".join(parts)


def ago(at: datetime | None, now: datetime) -> str:
    """How long ago: `3 min ago`; `now` for what has just been, or is to come."""
    if at is None:
        return NOTHING
    passed = now - at
    if passed < timedelta(seconds=1):
        return "now"
    largest = " ".join(span(passed.total_seconds()).split(" ")[:2])
    return f"{largest} ago"


def moment(at: datetime, now: datetime) -> str:
    """An instant, UTC: the time, `10:02:11`, with the day when it is not today's: `21 Nov 10:02:11`."""
    at = at.astimezone(UTC)
    form = "%H:%M:%S" if at.date() == now.astimezone(UTC).date() else "%d %b %H:%M:%S"
    return at.strftime(form)


def stretch(begin: datetime, end: datetime) -> str:
    """A range of time, UTC: `21 Nov` for a whole day, else `21 Nov 10:00 to 22 Nov 12:00`."""
    begin, end = begin.astimezone(UTC), end.astimezone(UTC)
    if end - begin == timedelta(days=1) and (begin.hour, begin.minute) == (0, 0):
        return f"{begin:%d %b}"
    return f"{begin:%d %b %H:%M} to {end:%d %b %H:%M}"
