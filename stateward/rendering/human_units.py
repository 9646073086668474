"""Numbers, sizes, durations and times in the form that people read. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

NOTHING = "–"
_BYTES = ("B", "kB", "MB", "GB", "TB")
_SPANS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_count(number: float | None) -> str:
    """Format a number: `12,345`, `12.3 M`; a fraction below 100 keeps one or two decimals, `9.75`."""
    if number is None:
        return NOTHING
    size = abs(number)
    if size >= 1e9:
        return f"{number / 1e9:,.1f} G"
    if size >= 1e6:
        return f"{number / 1e6:,.1f} M"
    if size >= 100 or float(number).is_integer():
        return f"{number:,.0f}"
    return f"{number:.1f}" if size >= 10 else f"{number:.2f}"


def format_percent(number: float | None) -> str:
    """Format a share; only an exact one is 0 % or 100 %: `99.9 %`, `0.02 %`."""
    if number is None:
        return NOTHING
    if 0 < number < 0.1:
        return f"{number:.2g} %" if number >= 0.001 else "< 0.001 %"
    if 99.9 < number < 100:
        return "> 99.9 %"
    return f"{number:.1f}".removesuffix(".0") + " %"


def format_rate(per_second: float | None) -> str:
    """Format records per second: `1,200 /s`, `0.5 /s`."""
    if per_second is None:
        return NOTHING
    return f"{per_second:.1f} /s" if 0 < per_second < 10 else f"{format_count(round(per_second))} /s"


def format_bytes(size: float | None) -> str:
    """Format a size in decimal units: `1.5 MB`."""
    if size is None:
        return NOTHING
    for unit in _BYTES:
        if abs(size) < 999.5 or unit == _BYTES[-1]:
            return f"{size:,.0f} {unit}" if unit == "B" or abs(size) >= 100 else f"{size:,.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable: the last unit takes any size")


def format_duration(seconds: float | None) -> str:
    """Format a duration by its two largest units: `1 h 30 min`, `2 min 5 s`, `1.5 s`, `850 ms`."""
    if seconds is None:
        return NOTHING
    if seconds < 0:
        return f"−{format_duration(-seconds)}"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds else "0 s"
    if seconds < 59.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    left = round(seconds)
    parts: list[str] = []
    for unit, size in _SPANS:
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number} {unit}")
        if len(parts) == 2 or (parts and not number):
            break
    return " ".join(parts)


def format_ago(at: datetime | None, now: datetime) -> str:
    """Format the age of an instant by its largest unit: `3 min ago`; `now` below a second."""
    if at is None:
        return NOTHING
    seconds = (now - at).total_seconds()
    return "now" if seconds < 1 else f"{format_age(seconds)} ago"


def format_age(seconds: float) -> str:
    """Format a duration by its largest unit: `3 min`."""
    return " ".join(format_duration(round(seconds)).split(" ")[:2])


def format_time(at: datetime, now: datetime) -> str:
    """Format an instant, UTC: `10:02:11`, with its day when that is not today: `21 Nov 10:02:11`."""
    at = at.astimezone(UTC)
    form = "%H:%M:%S" if at.date() == now.astimezone(UTC).date() else "%d %b %H:%M:%S"
    return at.strftime(form)


def format_timestamp(at_ms: int | None) -> str:
    """Format milliseconds since 1970 UTC: `2024-03-01 12:30:00.250`; beyond the year 9999 `never`."""
    if at_ms is None:
        return NOTHING
    try:
        at = _EPOCH + timedelta(milliseconds=at_ms)
    except OverflowError:
        return "never"
    return at.strftime("%Y-%m-%d %H:%M:%S") + (f".{at_ms % 1000:03}" if at_ms % 1000 else "")


def format_range(begin: datetime, end: datetime) -> str:
    """Format a range of time, UTC: `21 Nov` for a whole day, else `21 Nov 10:00 to 22 Nov 12:00`."""
    begin, end = begin.astimezone(UTC), end.astimezone(UTC)
    if end - begin == timedelta(days=1) and (begin.hour, begin.minute) == (0, 0):
        return f"{begin:%d %b}"
    return f"{begin:%d %b %H:%M} to {end:%d %b %H:%M}"
