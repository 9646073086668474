"""What is slow or large about a stream that runs, and the likely cause, in words. Pure.

Nothing is restarted for it: a stream that is slow would be slower still while it starts. What does lead to a
restart, silence and a standstill, is in `decide`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from stateward.control.health.diagnosis import likely_cause
from stateward.control.reconcile.status import Status
from stateward.rendering.human_units import format_bytes, format_duration

Level = Literal["warn", "critical"]

_FRESH = timedelta(minutes=1)


@dataclass(frozen=True)
class Limit:
    """Above which value a measure is worth a warning, and above which it is critical; None: never."""

    warn: float | None = None
    critical: float | None = None

    def level(self, value: float) -> tuple[Level, float] | None:
        """The level that a value has reached, and its limit; None below both."""
        if self.critical is not None and value > self.critical:
            return "critical", self.critical
        if self.warn is not None and value > self.warn:
            return "warn", self.warn
        return None


@dataclass(frozen=True)
class Finding:
    """One measure that is above its limit.

    Attributes:
        level: How far.
        measure: Its name, as in `health.limits` of the YAML.
        value: What was found: seconds, bytes, records, rows, records a second, or a share from 0 to 1.
        limit: What it is above.
        what: Both, in words.
        cause: What most likely lies behind it, and what to do, in words.
    """

    level: Level
    measure: str
    value: float
    limit: float
    what: str
    cause: str

    def __str__(self) -> str:
        return f"{self.level}: {self.what}. Likely cause: {self.cause}"


@dataclass(frozen=True)
class Measure:
    """How a measure is read from a status, and said."""

    read: Callable[[Status, datetime], float | None]
    said: str
    form: Callable[[float], str]


def _commit_age(status: Status, now: datetime) -> float | None:
    if status.behind_since is None or not status.lag_records:
        return None
    # On a quiet topic an old commit is right: what counts is how long records have been waiting.
    since = max(status.behind_since, status.last_batch_at or status.started_at)
    return (now - since).total_seconds()


def _watermark_delay(status: Status, now: datetime) -> float | None:
    return None if status.watermark is None else (now - status.watermark).total_seconds()


def _event_time_behind(status: Status, now: datetime) -> float | None:
    behind_ms = status.event_time_behind_ms
    return None if behind_ms is None else max(0.0, behind_ms / 1000)


def _event_time_ahead(status: Status, now: datetime) -> float | None:
    behind_ms = status.event_time_behind_ms
    return None if behind_ms is None else max(0.0, -behind_ms / 1000)


def _state_bytes(status: Status, now: datetime) -> float | None:
    # What RocksDB keeps in memory is bounded; beyond that the state is in its files.
    sizes = [size for size in (status.state_bytes, status.state_file_bytes) if size is not None]
    return max(sizes, default=None)


def _seconds_of(field: str) -> Callable[[Status, datetime], float | None]:
    def read(status: Status, now: datetime) -> float | None:
        value: float | None = getattr(status, field)
        return None if value is None else value / 1000

    return read


def _number_of(field: str) -> Callable[[Status, datetime], float | None]:
    def read(status: Status, now: datetime) -> float | None:
        value: float | None = getattr(status, field)
        return value

    return read


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _share(share: float) -> str:
    return f"{share:.1%}"


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f} records a second"


MEASURES: Mapping[str, Measure] = {
    "commit_age": Measure(_commit_age, "records wait, and nothing was committed for {}", format_duration),
    "lag": Measure(_number_of("lag_records"), "{} records behind", _count),
    "lag_growth": Measure(_number_of("lag_change_per_s"), "the lag grows by {}", _rate),
    "watermark_delay": Measure(_watermark_delay, "the watermark is {} behind the clock", format_duration),
    "event_time_behind": Measure(
        _event_time_behind, "the events' time is {} behind the broker's, in no replay", format_duration
    ),
    "event_time_ahead": Measure(
        _event_time_ahead, "the events' time is {} ahead of the broker's", format_duration
    ),
    "dead_share": Measure(_number_of("dead_share"), "{} of the records of ten minutes are dead", _share),
    "late_share": Measure(_number_of("late_share"), "{} of the records of ten minutes are late", _share),
    "batch_duration": Measure(_seconds_of("batch_duration_ms"), "the last batch took {}", format_duration),
    "state_rows": Measure(_number_of("state_rows"), "the state has {} rows", _count),
    "state_bytes": Measure(_state_bytes, "the state takes {}", format_bytes),
    "state_commit": Measure(_seconds_of("state_commit_ms"), "to commit the state took {}", format_duration),
    "state_update": Measure(
        _seconds_of("state_update_ms"), "the state took {} for each record", format_duration
    ),
    "state_removal": Measure(
        _seconds_of("state_removal_ms"), "to remove what has expired took {}", format_duration
    ),
    "memory_bytes": Measure(
        _number_of("memory_bytes"), "the driver's processes take {} of memory", format_bytes
    ),
}
"""By name, as in `health.limits` of the YAML."""


def can_be_judged(status: Status, now: datetime) -> bool:
    """Tell whether what a driver says of itself holds now: it runs, and was heard of within a minute.

    Args:
        status: What the driver last said.
        now: The time, UTC.
    """
    return status.state == "running" and now - status.updated_at <= _FRESH


def judge_health(limits: Mapping[str, Limit], status: Status, now: datetime) -> tuple[Finding, ...]:
    """Compare what a driver says of itself with the limits.

    Args:
        limits: By the name of the measure; seconds, bytes, records, rows, records a second, or a
            share from 0 to 1.
        status: What the driver last said. What it does not say, as one of an earlier release, is not judged;
            nor is a driver that does not run, or has been silent for a minute: `decide` has its eye on those.
        now: The time, UTC.

    Returns:
        Findings, the critical ones first, in the order of `MEASURES`.
    """
    if not can_be_judged(status, now):
        return ()
    values = {name: value for name, m in MEASURES.items() if (value := m.read(status, now)) is not None}
    reached = {
        name: found
        for name, value in values.items()
        if name in limits and (found := limits[name].level(value)) is not None
    }
    findings = [
        _finding(name, level, values[name], limit, likely_cause(name, frozenset(reached), status))
        for name, (level, limit) in reached.items()
    ]
    return tuple(sorted(findings, key=lambda finding: finding.level != "critical"))


def _finding(name: str, level: Level, value: float, limit: float, cause: str) -> Finding:
    measure = MEASURES[name]
    what = f"{measure.said.format(measure.form(value))} (limit {measure.form(limit)})"
    return Finding(level, name, value, limit, what, cause)
