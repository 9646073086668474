"""The right answer, and whether an output equals it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.harness.workload import Events, Integers

Row = tuple[str, int, int, int]
"""`user_id, started_ms, ended_ms, event_count` of one session."""


@dataclass(frozen=True)
class Answer:
    """A set of sessions, summed up.

    Attributes:
        sessions: how many.
        events: sum of `event_count`.
        checksum: over all four columns of all rows, whatever their order; 16 hexadecimal digits.
    """

    sessions: int
    events: int
    checksum: str

    def as_json(self) -> dict[str, int | str]:
        """Return the answer as a JSON object."""
        return asdict(self)


def expected(events: Events, gap_ms: int) -> Answer:
    """The sessions of all events: runs of one user, each event less than the gap after the one before it."""
    if len(events.users) == 0:
        return Answer(0, 0, _checksum(*[np.empty(0, np.int64)] * 4))
    order = np.lexsort((events.times_ms, events.users))
    users, times = events.users[order], events.times_ms[order]
    opens = np.ones(len(users), dtype=bool)
    opens[1:] = (users[1:] != users[:-1]) | (times[1:] - times[:-1] >= gap_ms)
    first = np.flatnonzero(opens)
    after = np.append(first[1:], len(users))
    return _sum_up(users[first], times[first], times[after - 1], after - first)


def answer_of(rows: Iterable[Row]) -> Answer:
    """What an output amounts to.

    Raises:
        ValueError: a `user_id` is not one of the workload's.
    """
    columns = list(zip(*((int(user.removeprefix("u")), *rest) for user, *rest in rows), strict=True))
    if not columns:
        return expected(Events(np.empty(0, np.int64), np.empty(0, np.int64)), 1)
    return _sum_up(*(np.array(column, dtype=np.int64) for column in columns))


def _sum_up(users: Integers, started: Integers, ended: Integers, counts: Integers) -> Answer:
    return Answer(len(users), int(counts.sum()), _checksum(users, started, ended, counts))


def _checksum(*columns: Integers) -> str:
    """Sum of each row's hash, so that a lost, added or changed row changes it and the order does not."""
    with np.errstate(over="ignore"):
        hashes = np.zeros(len(columns[0]), dtype=np.uint64)
        for column in columns:
            hashes = _mix(hashes ^ column.astype(np.uint64))
        return f"{int(hashes.sum(dtype=np.uint64)):016x}"


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The SplitMix64 finaliser."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
