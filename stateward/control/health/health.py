"""Compares the measures of a running stream with their limits, and names the likely cause. Pure.

A breach restarts nothing: a slow stream would be slower still while it starts. `decide` restarts a driver
that is silent or makes no progress.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from stateward.contract.measures import MEASURES, Unit
from stateward.contract.stream_status import Status
from stateward.control.health.diagnosis import likely_cause
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
        value: What was found: seconds, bytes, records, rows, records a second, a share from 0 to 1, or a
            factor.
        limit: What it is above.
        what: Both, as a sentence.
        cause: The most likely cause, and what to do.
    """

    level: Level
    measure: str
    value: float
    limit: float
    what: str
    cause: str

    def __str__(self) -> str:
        return f"{self.level}: {self.what}. Likely cause: {self.cause}"


_FORMS: Mapping[Unit, Callable[[float], str]] = {
    "seconds": format_duration,
    "bytes": format_bytes,
    "count": lambda number: f"{number:,.0f}",
    "rate": lambda per_s: f"{per_s:,.0f} records a second",
    "share": lambda share: f"{share:.1%}",
    "factor": lambda factor: f"{factor:,.1f}",
}


def can_be_judged(status: Status, now: datetime) -> bool:
    """Tell whether what a driver says of itself holds now.

    It runs, or waits for an executor, and was heard of within a minute.

    Args:
        status: What the driver last said.
        now: The time, UTC.
    """
    lacks_executors = status.state == "waiting" and status.awaits is not None
    return (status.state == "running" or lacks_executors) and now - status.updated_at <= _FRESH


def judge_health(limits: Mapping[str, Limit], status: Status, now: datetime) -> tuple[Finding, ...]:
    """Compare what a driver says of itself with the limits.

    Args:
        limits: By the name of the measure; seconds, bytes, records, rows, records a second, a share from 0
            to 1, or a factor.
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
    form = _FORMS[measure.unit]
    what = f"{measure.text.format(form(value))} (limit {form(limit)})"
    return Finding(level, name, value, limit, what, cause)
