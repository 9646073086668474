"""Retention of a table: which versions and log entries stay, and why. Pure.

Delta removes data files by the time at which they left the table, and log entries from the oldest on. So time
travel is an instant, and a reference to a version keeps its files, and the log from that version on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from stateward.rendering.human_units import format_duration


@dataclass(frozen=True, order=True)
class Need:
    """A reference to a version of a table.

    Attributes:
        version: The version.
        why: What refers to it, such as ``savepoint 20260101T040000Z of user_sessions``.
    """

    version: int
    why: str


@dataclass(frozen=True)
class Retention:
    """What stays.

    Attributes:
        oldest_version: The oldest version whose log entries stay. Later versions can be read if their files
            are still there.
        because: Why, as text.
        since: Files that left the table after this instant stay.
        pinned: Versions whose files stay whatever their age, ascending.
        lost: Versions with references that were unreadable before this run.
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
        history: How long every version can be read.
        newest: The table's version.
        first_on_record: The oldest version that can be read from the log.
        as_of_history: The newest version at ``now - history``, which is older than that instant.
        needs: References to versions.
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
