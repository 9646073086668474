"""What is measured of a stream, each measure once: its value, limits, wording, metric and likely cause. Pure.

Drivers write the values (`stream_status`); the YAML's `health.limits`, the warnings of the control plane and
the metrics follow from this table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from stateward.contract.stream_status import Status

Unit = Literal["seconds", "bytes", "count", "rate", "share", "factor"]
Read = Callable[[Status, datetime], float | None]

SLOW_STATE = "the state is slow: it no longer fits into memory, or its disk is slow"
_MANY_KEYS = "more keys than planned, or {}; `stateward state inspect` shows which"


@dataclass(frozen=True)
class Measure:
    """One measure.

    Attributes:
        name: As in `health.limits` of the YAML.
        unit: That of the value and the limits; a rate is in records a second, a share from 0 to 1.
        read: Its value in a status, at a time; None while it is not known.
        text: What a warning says, with `{}` for the value.
        metric: The end of its metric's name; the unit is part of it.
        help: What is measured.
        cause: What most likely lies behind a value above its limit; empty if other measures tell.
        warn, critical: The defaults of its limits; None: never.
    """

    name: str
    unit: Unit
    read: Read
    text: str
    metric: str
    help: str
    cause: str = ""
    warn: float | None = None
    critical: float | None = None


def _field(name: str, divisor: int = 1) -> Read:
    return lambda status, now: (
        None if (value := getattr(status, name)) is None else value / divisor if divisor > 1 else value
    )


def _commit_age(status: Status, now: datetime) -> float | None:
    if status.behind_since is None or not status.lag_records:
        return None
    # On a quiet topic an old commit is right: what counts is how long records have been waiting.
    return (now - max(status.behind_since, status.last_batch_at or status.started_at)).total_seconds()


def _event_time(sign: int) -> Read:
    return lambda status, now: (
        None if (behind_ms := status.event_time_behind_ms) is None else max(0.0, sign * behind_ms / 1000)
    )


def _state_bytes(status: Status, now: datetime) -> float | None:
    # What RocksDB keeps in memory is bounded; beyond that the state is in its files.
    sizes = [size for size in (status.state_bytes, status.state_file_bytes) if size is not None]
    return max(sizes, default=None)


_ALL = (
    Measure(
        "commit_age",
        "seconds",
        _commit_age,
        "records wait, and nothing was committed for {}",
        "records_waiting_seconds",
        "how long records have waited without a commit; missing while none wait",
        warn=120,
        critical=300,
    ),
    Measure(
        "executor_wait",
        "seconds",
        lambda status, now: None if status.awaits is None else (now - status.awaits.since).total_seconds(),
        "the driver has had no executor for {}",
        "executor_wait_seconds",
        "how long the driver has had no executor; missing while it has one, and on a local master",
        warn=120,
        critical=600,
    ),
    Measure("lag", "count", _field("lag_records"), "{} records behind", "lag_records", "records that wait"),
    Measure(
        "lag_growth",
        "rate",
        _field("lag_change_per_s"),
        "the lag grows by {}",
        "lag_growth_records_per_second",
        "records per second by which the lag has grown, over the last five minutes",
    ),
    Measure(
        "watermark_delay",
        "seconds",
        lambda status, now: None if status.watermark is None else (now - status.watermark).total_seconds(),
        "the watermark is {} behind the clock",
        "watermark_delay_seconds",
        "how far the watermark is behind the clock; for a replay of old events, their age",
    ),
    Measure(
        "event_time_behind",
        "seconds",
        _event_time(1),
        "the events' time is {} behind the broker's, in no replay",
        "event_time_behind_seconds",
        "how far the events' time was behind the broker's at the last batch; missing in a replay",
        "a partition with old events holds the others back: its producer's clock, or a backlog",
        warn=3600,
    ),
    Measure(
        "event_time_ahead",
        "seconds",
        _event_time(-1),
        "the events' time is {} ahead of the broker's",
        "event_time_ahead_seconds",
        "how far the events' time was ahead of the broker's at the last batch: drivers of this release"
        " prevent it, but a checkpoint of an earlier release can have it",
        "an earlier release let an event that was ahead move the watermark: others are late until that time"
        " has come, and `backfill` recomputes them",
        warn=60,
        critical=600,
    ),
    Measure(
        "dead_share",
        "share",
        _field("dead_share"),
        "{} of the records of ten minutes are dead",
        "dead_ratio",
        "share of dead records in ten minutes of the broker's time; missing for fewer than 100 records",
        "a producer sends what the YAML's schema does not take; `reason` in dead_letters says what",
        warn=0.01,
        critical=0.1,
    ),
    Measure(
        "late_share",
        "share",
        _field("late_share"),
        "{} of the records of ten minutes are late",
        "late_ratio",
        "share of late records in ten minutes of the broker's time; missing for fewer than 100 records",
        "a producer is later than allowed_lateness, or its clock is behind; see late_events",
        warn=0.01,
        critical=0.1,
    ),
    Measure(
        "batch_duration",
        "seconds",
        _field("batch_duration_ms", 1000),
        "the last batch took {}",
        "batch_duration_seconds",
        "how long the last batch took",
        warn=60,
        critical=300,
    ),
    Measure(
        "state_rows",
        "count",
        _field("state_rows"),
        "the state has {} rows",
        "state_rows",
        "rows in Spark's state store; for transformWithState these are buckets, chunks and timers, not keys",
        _MANY_KEYS.format("keys that stay longer"),
    ),
    Measure(
        "state_bytes",
        "bytes",
        _state_bytes,
        "the state takes {}",
        "state_bytes",
        "the larger of the state store's size in memory and in files",
        _MANY_KEYS.format("more kept for each"),
        warn=1_000_000_000,
        critical=5_000_000_000,
    ),
    Measure(
        "state_keys",
        "count",
        _field("state_keys"),
        "the state has {} keys",
        "state_keys",
        "live keys of a keyed stream; rows of a stream on Spark's own operators",
        _MANY_KEYS.format("keys that stay longer"),
    ),
    Measure(
        "bytes_per_key",
        "bytes",
        _field("bytes_per_key"),
        "a key takes {}",
        "state_bytes_per_key",
        "mean size of a key with its state",
        "more is kept of each key than planned",
    ),
    Measure(
        "key_growth",
        "factor",
        _field("key_growth"),
        "there are {} times as many keys as the input's growth explains",
        "key_growth_ratio",
        "growth of the live keys over the growth window, divided by that of the input",
        "keys are added and do not end: a timeout that is too long, or keys that are new with each event",
        warn=1.5,
        critical=3,
    ),
    Measure(
        "state_growth",
        "factor",
        _field("state_growth"),
        "the state is {} times as large as the input's growth explains",
        "state_growth_ratio",
        "growth of the bytes of keys and states over the growth window, divided by that of the input",
        "more keys, or more is kept of each: compare with key_growth and bytes_per_key",
        warn=1.5,
        critical=3,
    ),
    Measure(
        "largest_key",
        "factor",
        _field("largest_key_ratio"),
        "the largest key takes {} times the others' mean",
        "largest_key_ratio",
        "size of the largest key over the mean of the others; missing below 100 kB",
        "one key gets far more events than the others: a bot, an empty id or a test account; `stateward state"
        " inspect` names it",
        warn=100,
        critical=1000,
    ),
    Measure(
        "partition_imbalance",
        "factor",
        _field("partition_imbalance"),
        "the largest state partition has {} times the median",
        "partition_imbalance_ratio",
        "size of the largest state partition over the median of those that have keys; missing below 10 MB",
        "a large key, or few buckets for each partition; `stateward state advise` proposes a number",
        warn=3,
        critical=10,
    ),
    Measure(
        "state_commit",
        "seconds",
        _field("state_commit_ms", 1000),
        "to commit the state took {}",
        "state_commit_seconds",
        "a task's time to commit its part of the state in the last batch",
        "the checkpoint's storage is slow, or much state has changed in one batch",
        warn=10,
        critical=30,
    ),
    Measure(
        "state_update",
        "seconds",
        _field("state_update_ms", 1000),
        "the state took {} for each record",
        "state_update_seconds",
        "time of all tasks on the state for each record, with the stream's own logic; only for batches of 100"
        " records and more",
        SLOW_STATE,
        warn=0.010,
        critical=0.050,
    ),
    Measure(
        "state_removal",
        "seconds",
        _field("state_removal_ms", 1000),
        "to remove what has expired took {}",
        "state_removal_seconds",
        "a task's time to find and remove expired state",
        "many timeouts end in one batch; timeout.jitter spreads them",
        warn=5,
        critical=15,
    ),
    Measure(
        "memory_bytes",
        "bytes",
        _field("memory_bytes"),
        "the driver's processes take {} of memory",
        "memory_bytes",
        "resident memory of the driver: its JVM, its Python and Spark's Python workers",
        warn=3_500_000_000,
        critical=6_000_000_000,
    ),
)

OF_INSPECTION = ("largest_key", "partition_imbalance")
"""Those that an inspection of a state measures too, of every kind of stream."""

MEASURES = {measure.name: measure for measure in _ALL}
"""By name, in the order in which they are shown."""
