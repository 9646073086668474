"""What of a table has to stay: which versions, how far back its log, and because of what.

Delta removes data files by the time at which they left the table, and log entries from the oldest on. So
time travel is an instant, and whatever refers to one version keeps the files of that version, and the log
from there on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from stateward.rendering.human_units import format_duration


@dataclass(frozen=True, order=True)
class Need:
    """Somebody refers to a version of a table.

    Attributes:
        version: The version.
        why: Who, such as ``savepoint 20260101T040000Z of user_sessions``.
    """

    version: int
    why: str


@dataclass(frozen=True)
class Retention:
    """What stays.

    Attributes:
        oldest_version: The log stays from here on, so that each version since can be read as far as its files
            are there.
        because: Why, in words.
        since: What left the table after this instant stays.
        pinned: Versions whose files stay however old they are, ascending.
        lost: Versions somebody refers to that could not be read before this run either.
    """

    oldest_version: int
    because: str
    since: datetime
    pinned: tuple[int, ...]
    lost: tuple[Need, ...]


def retention(
    *,
    now: datetime,
    history: timedelta,
    newest: int,
    first_on_record: int,
    as_of_history: int,
    needs: Iterable[Need],
) -> Retention:
    """Decide what stays.

    Args:
        now: The time, aware.
        history: For how long every version can be read.
        newest: The table's version.
        first_on_record: The oldest version that its log can still bring back.
        as_of_history: The version that was the newest one at ``now - history``: on the safe side, for it is
            older than the instant.
        needs: Who refers to which version.
    """
    wanted = sorted(set(needs))
    lost = tuple(need for need in wanted if not first_on_record <= need.version <= newest)
    kept = [need for need in wanted if first_on_record <= need.version <= newest]
    oldest = max(first_on_record, min(as_of_history, newest))
    because = f"time travel of {format_duration(history.total_seconds())}"
    if kept and kept[0].version < oldest:
        oldest, because = kept[0].version, kept[0].why
    pinned = tuple(sorted({need.version for need in kept}))
    return Retention(oldest, because, now - history, pinned, lost)
