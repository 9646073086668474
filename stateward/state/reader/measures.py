"""Measures over the keys of a state: timers, the largest keys, and loads. Pure.

Measures of parts add up to the measure of the whole, so the workers can measure each part.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from stateward.contract.stream_status import key_ratio

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

# Bins of timers by the time until they are due: the upper ends; the last is open.
BINS: tuple[tuple[str, int | None], ...] = (
    ("overdue", 0),
    ("1 min", MINUTE_MS),
    ("5 min", 5 * MINUTE_MS),
    ("15 min", 15 * MINUTE_MS),
    ("1 h", HOUR_MS),
    ("6 h", 6 * HOUR_MS),
    ("1 d", DAY_MS),
    ("7 d", 7 * DAY_MS),
    ("30 d", 30 * DAY_MS),
    ("later", None),
)


@dataclass(frozen=True)
class BatchTime:
    """One committed batch: its plan and commit time (ms since 1970 UTC), and the records it read."""

    batch_id: int
    planned_ms: int
    committed_ms: int
    records: int

    @property
    def duration_ms(self) -> int:
        """From plan to commit, milliseconds."""
        return self.committed_ms - self.planned_ms


@dataclass(frozen=True)
class Timers:
    """Timers of keys; times in milliseconds since 1970 UTC, None without timers.

    Attributes:
        count: Number of timers.
        overdue: Number of timers at or before the watermark; the next batch fires them.
        oldest_ms: The earliest.
        next_ms: The earliest after the watermark.
        latest_ms: The last.
        bins: Number of timers in each of `BINS`.
    """

    count: int = 0
    overdue: int = 0
    oldest_ms: int | None = None
    next_ms: int | None = None
    latest_ms: int | None = None
    bins: tuple[int, ...] = (0,) * len(BINS)

    def __add__(self, other: Timers) -> Timers:
        return Timers(
            self.count + other.count,
            self.overdue + other.overdue,
            _least(self.oldest_ms, other.oldest_ms),
            _least(self.next_ms, other.next_ms),
            max((at for at in (self.latest_ms, other.latest_ms) if at is not None), default=None),
            tuple(mine + its for mine, its in zip(self.bins, other.bins, strict=True)),
        )


def timers(times: Iterable[int], watermark_ms: int) -> Timers:
    """Measure timers.

    Args:
        times: When they are due (ms since 1970 UTC).
        watermark_ms: The watermark of the batch.
    """
    due = sorted(times)
    if not due:
        return Timers()
    bins = [0] * len(BINS)
    for at_ms in due:
        bins[_bin(at_ms - watermark_ms)] += 1
    later = next((at_ms for at_ms in due if at_ms > watermark_ms), None)
    return Timers(len(due), bins[0], due[0], later, due[-1], tuple(bins))


def _bin(ahead_ms: int) -> int:
    return next(i for i, (_, end_ms) in enumerate(BINS) if end_ms is None or ahead_ms <= end_ms)


def _least(one: int | None, other: int | None) -> int | None:
    return min((at for at in (one, other) if at is not None), default=None)


@dataclass(frozen=True)
class LargeKey:
    """One of the largest keys.

    Attributes:
        key: The key, possibly masked.
        partition: Its partition.
        bucket: Its bucket, in a keyed stream.
        rows: Number of its rows in the store.
        bytes: Size of the key and its values.
        ends_ms: The watermark of its next change; None if unknown.
    """

    key: str
    partition: int
    bucket: int | None
    rows: int
    bytes: int
    ends_ms: int | None = None


def largest(keys: Iterable[LargeKey], most: int) -> tuple[LargeKey, ...]:
    """The ``most`` largest keys, largest first; equal sizes are ordered by key."""
    return tuple(heapq.nsmallest(most, keys, key=lambda large: (-large.bytes, large.key)))


@dataclass(frozen=True)
class Load:
    """The load of one partition or bucket.

    Attributes:
        number: Number of the partition or bucket.
        keys: Number of its keys, or of its rows if keys are unknown.
        key_bytes, value_bytes: Their sizes, bytes.
        timers: Their timers; None if unknown.
    """

    number: int
    keys: int = 0
    key_bytes: int = 0
    value_bytes: int = 0
    timers: Timers | None = None


def loads(parts: Iterable[Load], numbers: Sequence[int]) -> tuple[Load, ...]:
    """Sum loads by number; a number without a load gets an empty one."""
    by_number = {number: Load(number) for number in numbers}
    for part in parts:
        so_far = by_number.get(part.number, Load(part.number))
        by_number[part.number] = Load(
            part.number,
            so_far.keys + part.keys,
            so_far.key_bytes + part.key_bytes,
            so_far.value_bytes + part.value_bytes,
            _sum(so_far.timers, part.timers),
        )
    return tuple(by_number[number] for number in sorted(by_number))


def bytes_by_number(groups: Iterable[Iterable[Load]]) -> Mapping[int, int]:
    """The bytes of each partition or bucket, of all variables together."""
    bytes_of = Counter[int]()
    for load in chain.from_iterable(groups):
        bytes_of[load.number] += load.key_bytes + load.value_bytes
    return bytes_of


def _sum(one: Timers | None, other: Timers | None) -> Timers | None:
    if one is None or other is None:
        return one or other
    return one + other


@dataclass(frozen=True)
class Variable:
    """One state variable, or one store, of an operator.

    Attributes:
        operator_id: Spark's number of the operator.
        operator: Spark's name of the operator.
        name: Name of the variable or store.
        meaning: A short description.
        rows: Number of keys or entries.
        key_bytes, value_bytes: Their sizes, bytes.
        measure: How sizes are measured: ``json`` (the text of a state) or ``stored`` (as Spark stores it).
        partitions: Loads of all partitions; empty if unknown.
        buckets: Loads of all buckets; empty if unknown.
        timers: Its timers; None if unknown.
        largest: The largest keys.
        keys: Number of keys, of which each may have several rows; None if it is not known.
        json_bytes: Size of all rows as JSON, as that of the largest keys; None likewise.
    """

    operator_id: int
    operator: str
    name: str
    meaning: str
    rows: int
    key_bytes: int
    value_bytes: int
    measure: str
    partitions: tuple[Load, ...] = ()
    buckets: tuple[Load, ...] = ()
    timers: Timers | None = None
    largest: tuple[LargeKey, ...] = field(default=())
    keys: int | None = None
    json_bytes: int | None = None

    @property
    def largest_key_ratio(self) -> float | None:
        """The largest key over the mean of the others; None for small ones (`key_ratio`)."""
        return key_ratio(self.largest[0].bytes, self.keys, self.json_bytes) if self.largest else None
