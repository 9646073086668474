"""Advises a number of state partitions from measurements. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from stateward.contract.state_care import MAX_PARTITION_BYTES, MAX_SKEW, largest_over_median
from stateward.state.partitions.bucket_places import even_buckets, partition_sizes

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
# A batch that takes so many times the fixed cost is busy with its records.
_BUSY = 2.0


@dataclass(frozen=True)
class BusyBatch:
    """The batches that read the most.

    Attributes:
        ms: Their median duration, milliseconds.
        records: The records of such a batch.
        fixed_ms: The fixed cost of a batch, milliseconds.
        trigger_ms: The trigger interval, milliseconds.
    """

    ms: float
    records: int
    fixed_ms: float
    trigger_ms: float

    @property
    def is_full(self) -> bool:
        """Whether one batch follows another, each busy with its records: the stream can do no more."""
        return self.ms >= max(self.trigger_ms, _BUSY * self.fixed_ms) and self.records > 0


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
        partition_bytes: Size of each partition, bytes; empty if unknown.
        bucket_bytes: Size of each bucket, bytes; empty if unknown.
        lane: The text by which Spark places the buckets' events, beside the bucket.
        largest_key_bytes: Size of the largest key with its state.
        busy: The batches that read the most; None if they could not be measured.
        most_bytes: Maximum size of a partition, which is loaded and copied as a whole when a driver starts.
    """

    partitions: int
    state_bytes: int
    keys: int
    records_per_s: float
    cores: int
    buckets: int | None = None
    partition_bytes: tuple[int, ...] = ()
    bucket_bytes: tuple[int, ...] = ()
    lane: str = ""
    largest_key_bytes: int = 0
    busy: BusyBatch | None = None
    most_bytes: int = MAX_PARTITION_BYTES


@dataclass(frozen=True)
class Advice:
    """The advised number of partitions.

    Attributes:
        partitions: The number.
        reasons: The reasons, one sentence each, in the order of the calculation.
        buckets: Another number of buckets, by which the partitions become even; None if the current one does.
    """

    partitions: int
    reasons: tuple[str, ...]
    buckets: int | None = None


def advise(measured: Measured) -> Advice:
    """Advise a number of partitions.

    Raises:
        ValueError: A measurement is out of range.
    """
    _check(measured)
    reasons: list[str] = []
    wanted = _wanted(measured, reasons)
    wanted = _limited(measured, wanted, reasons)
    now, even = measured.partitions, _even(measured, wanted)
    is_skewed = largest_over_median(measured.partition_bytes) > MAX_SKEW
    enough = wanted <= now <= wanted * _WORTH_A_STOP and now <= _most(measured)
    if enough and not (is_skewed and even not in (None, now)):
        if now != wanted:
            reasons.append(
                f"{now}, the current number: {wanted} would do, but do not justify stopping the stream"
            )
        more = _buckets(measured, now, reasons) if is_skewed else None
        return Advice(now, tuple(reasons), more)
    if even is not None and even != wanted:
        reasons.append(f"{even}, so that the largest partition is at most {MAX_SKEW} times the median")
    chosen = wanted if even is None else even
    more = _buckets(measured, chosen, reasons) if even is None else None
    return Advice(chosen, tuple(reasons), more)


def _sizes(measured: Measured, partitions: int) -> Sequence[int]:
    if partitions == measured.partitions and measured.partition_bytes:
        return measured.partition_bytes
    return partition_sizes(measured.lane, measured.bucket_bytes, partitions)


def _even(measured: Measured, wanted: int) -> int | None:
    """Return the least number from the wanted one to twice as many that divides the buckets evenly."""
    if not measured.bucket_bytes:
        return wanted
    step = measured.cores if wanted % measured.cores == 0 else 1
    numbers = range(wanted, max(wanted, min(2 * wanted, _most(measured))) + 1, step)
    return next((one for one in numbers if largest_over_median(_sizes(measured, one)) <= MAX_SKEW), None)


def _buckets(measured: Measured, partitions: int, reasons: list[str]) -> int | None:
    """Return the number of buckets with which the partitions are even; None if there is none."""
    skew = largest_over_median(_sizes(measured, partitions))
    if measured.buckets is None or not measured.bucket_bytes or skew <= MAX_SKEW:
        return None
    share = measured.largest_key_bytes / max(1, measured.state_bytes)
    more = even_buckets(measured.lane, measured.buckets, partitions, share)
    says = f"the largest of {partitions} partitions is {skew:.1f} times the median"
    if more is None:
        reasons.append(f"{says}, and no number of buckets changes that: the largest key has {share:.0%}")
    else:
        reasons.append(f"{more} buckets in place of {measured.buckets}: {says}")
    return more


def _wanted(measured: Measured, reasons: list[str]) -> int:
    by_size = ceil(measured.state_bytes / measured.most_bytes)
    capacity, source = _capacity(measured)
    per_core = capacity * _SHARE_OF_MEASURED
    by_rate = ceil(measured.records_per_s / per_core)
    wanted = 1
    if by_rate > wanted:
        wanted = by_rate
        reasons.append(
            f"{by_rate} for {measured.records_per_s:,.0f} records/s, at {per_core:,.0f} for a core,"
            f" three quarters of the {capacity:,.0f} {source}"
        )
    if by_rate > measured.cores:
        reasons.append(f"{measured.cores} cores are too few for that rate: more partitions alone do not help")
        wanted = measured.cores
    if by_size > wanted:
        wanted = by_size
        reasons.append(
            f"{by_size} for {measured.state_bytes:,} bytes, at most {measured.most_bytes:,} in a partition"
        )
    even = ceil(wanted / measured.cores) * measured.cores
    if even != wanted:
        reasons.append(f"{even}, a multiple of the {measured.cores} cores, so that none is idle in a batch")
    return even


def _capacity(measured: Measured) -> tuple[float, str]:
    """The records/s of one core, and their source: a stream that can do no more shows its own."""
    busy = measured.busy
    if busy is not None and busy.is_full:
        at_work = min(measured.partitions, measured.cores)
        return busy.records / busy.ms * 1000 / at_work, f"that its batches of {busy.ms:,.0f} ms reach"
    return next(rate for keys, rate in _MEASURED_PER_CORE if measured.keys >= keys), "measured"


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
    by_keys = max(1, measured.keys // _FEWEST_KEYS, ceil(measured.state_bytes / measured.most_bytes))
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
