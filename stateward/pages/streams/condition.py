"""The condition of a stream: a word and a sentence. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stateward.contract.stream_status import ENDED
from stateward.control.reconcile.decide import (
    Action,
    Done,
    Drain,
    GiveUp,
    Healthy,
    Held,
    Kill,
    Launch,
    Observed,
    Queued,
    Suspended,
    Wait,
)

Level = Literal["good", "calm", "warn", "bad"]

_PLAIN: dict[type[Action], tuple[str, Level]] = {
    GiveUp: ("failed", "bad"),
    Kill: ("hanging", "bad"),
    Held: ("held", "calm"),
    Suspended: ("suspended", "calm"),
    Done: ("stopped", "calm"),
    Drain: ("draining", "calm"),
}


NEVER_STARTED = "never started"


@dataclass(frozen=True)
class Condition:
    """The condition of a stream.

    Attributes:
        state: The word: running, waiting, starting, draining, held, suspended, stopped, failed, hanging,
            never started.
        level: `calm` for a requested condition, `bad` for one that needs attention.
        says: Why, a sentence.
    """

    state: str
    level: Level
    says: str


def condition(seen: Observed, action: Action) -> Condition:
    """Return the condition of a stream.

    Args:
        seen: The observation.
        action: The action that `decide` chose for it.
    """
    if seen.control is None:
        return Condition(NEVER_STARTED, "calm", f"{action.reason}; trigger its DAG with the action run")
    if isinstance(action, Wait) and seen.placement.waits_for:
        return Condition("waiting", "warn", action.reason)
    if type(action) in _PLAIN:
        state, level = _PLAIN[type(action)]
        return Condition(state, level, action.reason)
    if isinstance(action, Healthy):
        waits = seen.own_status is not None and seen.own_status.state == "waiting"
        return Condition("waiting" if waits else "running", "warn" if waits else "good", action.reason)
    return _between(seen, action)


def _between(seen: Observed, action: Action) -> Condition:
    """Return the condition of a driver that starts, stops, or is about to be restarted."""
    due = action.launch if isinstance(action, Queued) else action
    failed = isinstance(due, Launch) and due.after_failure
    if failed or (isinstance(action, Wait) and action.until is not None):
        return Condition("failed", "bad", action.reason)
    if isinstance(action, Wait) and not isinstance(action, Queued) and _leaves(seen):
        return Condition("draining", "calm", action.reason)
    return Condition("starting", "calm", action.reason)


def _leaves(seen: Observed) -> bool:
    control, status = seen.control, seen.own_status
    asked = control is not None and (control.desired != "running" or control.launch_pending)
    return asked or (status is not None and (status.state == "draining" or status.state in ENDED))
