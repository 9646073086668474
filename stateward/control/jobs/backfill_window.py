"""Which range a run of a reconciliation looks at: that of its form, else the days before it. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def window(
    begin: datetime | None, end: datetime | None, *, run_at: datetime, days: int
) -> tuple[datetime, datetime]:
    """Return a range's begin, and its end, which is not part of it.

    Args:
        begin: As it was asked for, aware; None: so many days before the end.
        end: As it was asked for, aware; None: the last midnight (UTC) before the run, so that all of its
            events had time to come.
        run_at: The run's logical date, or when it was to run, aware.
        days: Days without a start.
    """
    if end is None:
        end = run_at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return begin or end - timedelta(days=days), end
