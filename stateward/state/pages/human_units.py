"""Figures as a person reads them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_UNITS = ("B", "kB", "MB", "GB", "TB")
_SPANS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))
NOTHING = "–"


def count(number: float | None) -> str:
    """A number with its thousands apart: ``12,345``; of small fractions one or two decimals."""
    if number is None:
        return NOTHING
    if isinstance(number, int) or abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:,.1f}" if abs(number) >= 10 else f"{number:,.2f}"


def format_bytes(size: float | None) -> str:
    """Bytes in decimal units: ``1.5 MB``."""
    if size is None:
        return NOTHING
    for unit in _UNITS:
        if abs(size) < 999.5 or unit == _UNITS[-1]:
            return f"{size:,.0f} {unit}" if unit == "B" or abs(size) >= 100 else f"{size:,.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable: the last unit takes any size")


def when(at_ms: int | None) -> str:
    """An instant, UTC: ``2024-03-01 12:30:00``, with its milliseconds if any; beyond 9999 never."""
    if at_ms is None:
        return NOTHING
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
    except OverflowError:
        return "never"
    return at.strftime("%Y-%m-%d %H:%M:%S") + (f".{at_ms % 1000:03}" if at_ms % 1000 else "")


def span(duration_ms: float | None) -> str:
    """A duration by its two largest units: ``1 h 30 min``, ``850 ms``."""
    if duration_ms is None:
        return NOTHING
    if abs(duration_ms) < 1000:
        return f"{duration_ms:.0f} ms"
    sign, left = ("-", -duration_ms) if duration_ms < 0 else ("", duration_ms)
    if left < 60_000:
        return f"{sign}{left / 1000:.1f} s".replace(".0 s", " s")
    parts: list[str] = []
    for unit, size_ms in _SPANS:
        number, left = divmod(left, size_ms)
        if number:
            parts.append(f"{number:.0f} {unit}")
        if len(parts) == 2 or (parts and not number):
            break
    return sign + " ".join(parts)


def share(part: float | None) -> str:
    """A share in percent: ``2.5 %``."""
    return NOTHING if part is None else f"{part * 100:.2g} %" if part < 0.1 else f"{part * 100:.0f} %"


def ratio(value: float | None) -> str:
    """A factor: ``1.25``."""
    return NOTHING if value is None else f"{value:.2f}"
