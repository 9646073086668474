"""Advises a number of state partitions from measurements. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

# Maximum size of a partition, which is loaded and copied as a whole when a task moves or a driver starts.
_MOST_BYTES = 512 * 1024 * 1024
# Measured records/s of one core (docs/tuning.md), by the minimum number of keys: 36,000 to 47,000 with 20,000
# keys; with a million keys nearly every record is for a different key.
_MEASURED_PER_CORE = ((1_000_000, 19_000), (0, 36_000))
# The rest is headroom to catch up.
_SHARE_OF_MEASURED = 0.75
# With fewer keys a batch spends its time on tasks and commits, not on records.
_FEWEST_KEYS = 1_000
# Buckets are hashed to partitions: with fewer of them, one partition has twice as many as another.
_BUCKETS_PER_PARTITION = 4
# A repartition stops the stream, so a number within this factor stays.
_WORTH_A_STOP = 2.0


@dataclass(frozen=True)
class Measured:
    """Measurements of a stream.

    Attributes:
        partitions: Current number of state partitions.
        state_bytes: Size of the state, bytes.
        keys: Number of keys.
        records_per_s: Required rate, records/s.
        cores: Number of cores.
        buckets: Number of buckets of a keyed stream; None if it uses Spark's built-in operators.
    """

    partitions: int
    state_bytes: int
    keys: int
    records_per_s: float
    cores: int
    buckets: int | None = None


@dataclass(frozen=True)
class Advice:
    """The advised number of partitions.

    Attributes:
        partitions: The number.
        reasons: The reasons, one sentence each, in the order of the calculation.
    """

    partitions: int
    reasons: tuple[str, ...]


def advise(measured: Measured) -> Advice:
    """Advise a number of partitions.

    Raises:
        ValueError: A measurement is out of range.
    """
    _check(measured)
    reasons: list[str] = []
    wanted = _wanted(measured, reasons)
    wanted = _limited(measured, wanted, reasons)
    now = measured.partitions
    if now != wanted and wanted <= now <= wanted * _WORTH_A_STOP and now <= _most(measured):
        reasons.append(
            f"{now}, the current number: {wanted} would do, but do not justify stopping the stream"
        )
        wanted = now
    return Advice(wanted, tuple(reasons))


def _wanted(measured: Measured, reasons: list[str]) -> int:
    by_size = ceil(measured.state_bytes / _MOST_BYTES)
    capacity = next(rate for keys, rate in _MEASURED_PER_CORE if measured.keys >= keys)
    per_core = capacity * _SHARE_OF_MEASURED
    by_rate = ceil(measured.records_per_s / per_core)
    wanted = 1
    if by_rate > wanted:
        wanted = by_rate
        reasons.append(
            f"{by_rate} for {measured.records_per_s:,.0f} records/s, at {per_core:,.0f} for a core,"
            f" three quarters of the {capacity:,} measured"
        )
    if by_rate > measured.cores:
        reasons.append(f"{measured.cores} cores are too few for that rate: more partitions alone do not help")
        wanted = measured.cores
    if by_size > wanted:
        wanted = by_size
        reasons.append(
            f"{by_size} for {measured.state_bytes:,} bytes, at most {_MOST_BYTES:,} in a partition"
        )
    even = ceil(wanted / measured.cores) * measured.cores
    if even != wanted:
        reasons.append(f"{even}, a multiple of the {measured.cores} cores, so that none is idle in a batch")
    return even


def _limited(measured: Measured, wanted: int, reasons: list[str]) -> int:
    most = _most(measured)
    if wanted <= most:
        return wanted
    if measured.buckets is not None and most == _most_by_buckets(measured.buckets):
        reasons.append(
            f"{most}, for {measured.buckets} buckets: with fewer than {_BUCKETS_PER_PARTITION} for a "
            "partition some get twice as many as others"
        )
    else:
        reasons.append(
            f"{most}, for {measured.keys:,} keys: with fewer than {_FEWEST_KEYS:,} in a partition "
            "a batch pays for partitions, not for records"
        )
    return most


def _most(measured: Measured) -> int:
    # A large state needs its partitions even when its keys are few.
    by_keys = max(1, measured.keys // _FEWEST_KEYS, ceil(measured.state_bytes / _MOST_BYTES))
    return by_keys if measured.buckets is None else min(by_keys, _most_by_buckets(measured.buckets))


def _most_by_buckets(buckets: int) -> int:
    return max(1, buckets // _BUCKETS_PER_PARTITION)


def _check(measured: Measured) -> None:
    at_least = {
        "partitions": 1,
        "cores": 1,
        "state_bytes": 0,
        "keys": 0,
        "records_per_s": 0,
    }
    for name, least in at_least.items():
        if getattr(measured, name) < least:
            raise ValueError(f"{name}: expected {least} or more, found {getattr(measured, name)}")
    if measured.buckets is not None and measured.buckets < 1:
        raise ValueError(f"buckets: expected 1 or more, found {measured.buckets}")
