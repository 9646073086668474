"""Findings about a running stream, as the page shows them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from stateward.contract.stream_control import Supervisor
from stateward.control.reconcile.decide import Action, Healthy, Observed
from stateward.rendering.human_units import format_duration

Level = Literal["warn", "critical"]


@dataclass(frozen=True)
class Finding:
    """One measure beyond its limit. Only `measure` is never empty.

    Attributes:
        level: `warn` or `critical`.
        measure: The measure's name.
        value: The measured value.
        limit: Its limit.
        cause: The likely cause, or what to do.
    """

    level: Level
    measure: str
    value: str = ""
    limit: str = ""
    cause: str = ""


def findings_of(action: Action) -> tuple[Finding, ...]:
    """Return the findings of a decision."""
    if not isinstance(action, Healthy):
        return ()
    return tuple(Finding(one.level, one.what, cause=f"Likely cause: {one.cause}") for one in action.warnings)


def supervision(
    seen: Observed, supervisor: Supervisor | None, now: datetime, stale_after_s: float
) -> tuple[Finding, ...]:
    """Report a stream that should run but has no supervisor.

    Args:
        seen: The observation.
        supervisor: The last heartbeat of a supervisor, if there is one.
        now: The time, aware.
        stale_after_s: Age from which a heartbeat is stale, seconds.
    """
    control = seen.control
    if control is None or control.desired != "running":
        return ()
    remedy = f"Trigger stream_{control.stream} with the action run."
    if supervisor is None:
        return (Finding("warn", "no DAG run supervises it", cause=remedy),)
    age = (now - supervisor.at).total_seconds()
    if age <= stale_after_s:
        return ()
    return (
        Finding(
            "warn",
            "its supervisor is silent",
            format_duration(age),
            format_duration(stale_after_s),
            remedy,
        ),
    )
