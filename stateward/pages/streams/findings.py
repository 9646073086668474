"""What is wrong with the health of a stream that runs, as the page shows it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from stateward.control.reconcile.decide import Action, Healthy, Observed
from stateward.control.reconcile.status import Supervisor
from stateward.rendering.human_units import format_duration

Level = Literal["warn", "critical"]


@dataclass(frozen=True)
class Finding:
    """One measure that is not as it should be. All texts may be empty but the first.

    Attributes:
        level: How bad it is.
        measure: What was looked at.
        value: What was found.
        limit: What it should be at most, or at least.
        cause: What is likely to be behind it, or what to do.
    """

    level: Level
    measure: str
    value: str = ""
    limit: str = ""
    cause: str = ""


def findings_of(action: Action) -> tuple[Finding, ...]:
    """Read the findings that come with a decision: the one place where health meets the page."""
    if not isinstance(action, Healthy):
        return ()
    return tuple(Finding(one.level, one.what, cause=f"Likely cause: {one.cause}") for one in action.warnings)


def supervision(
    seen: Observed, supervisor: Supervisor | None, now: datetime, stale_after_s: float
) -> tuple[Finding, ...]:
    """Say when nobody would start a stream again that should run.

    Args:
        seen: What is and what should be.
        supervisor: Who watches, if anybody has said so.
        now: The time, aware.
        stale_after_s: Age of a heartbeat from which on it counts for nothing, seconds.
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
