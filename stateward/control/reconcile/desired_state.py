"""What someone wants of a stream, and the control document that it leads to. Pure.

Three hands are on a stream's desired state: its YAML, which declares it; a person, who may override that
with a reason; and a state operation, whose hold leaves it alone. An override lasts until another action
ends it, or until the YAML declares something else: what was written last counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from msgspec.structs import replace

from stateward.contract.stream_control import Control, Desired, Override

WishAction = Literal["run", "restart", "stop", "suspend", "resume"]


class WishError(ValueError):
    """What was asked for may not be done in this way."""


@dataclass(frozen=True)
class Wish:
    """One action that was asked for.

    Attributes:
        action: `run` leaves a driver that is there alone, and a stream that is suspended, or that its YAML
            declares stopped, as it is. `restart` replaces the driver, and ends the hold of a state
            operation, whose run may be gone. `stop` drains it until the next `run`. `suspend` drains it until
            a `resume`, whatever else is run meanwhile.
        by: The DAG run, `<dag id>/<run id>`. A `restart` asked for twice by the same run is one restart, so
            that a task which Airflow runs again does not restart the stream again.
        author: The person.
        reason: Why, in their words.
        at: When, aware.
    """

    action: WishAction
    by: str
    author: str
    reason: str
    at: datetime


@dataclass(frozen=True)
class _Asked:
    """What the document says of the last change of what is desired."""

    by: str
    at: datetime
    reason: str


def declare(control: Control, declared: Desired, run_id: str, now: datetime) -> Control | None:
    """Bring a change of what the YAML declares into the control document.

    Args:
        control: What should be so far.
        declared: `desired` in the stream's YAML.
        run_id: A new name, for the launch that may follow.
        now: The time, aware.

    Returns:
        The new document, without an override; None when the YAML declares what it did before.
    """
    if control.declared == declared:
        return None
    told = replace(control, declared=declared, override=None)
    if control.desired == declared:
        return told
    asked = _Asked("its YAML", now, f"its YAML declares it {declared}")
    return _desire(told, declared, run_id, asked)


def wanted(control: Control, wish: Wish, run_id: str) -> Control | None:
    """Return the control document that a wish leads to, or None when nothing changes.

    Args:
        control: What should be so far, with what the YAML declares now; see `declare` and `first`.
        wish: What was asked for.
        run_id: A new name, for the launch that may follow.

    Raises:
        WishError: A reason is missing.
    """
    if wish.action in ("run", "restart"):
        return _start(control, wish, run_id)
    aim: Desired = {"stop": "stopped", "suspend": "suspended", "resume": "running"}[wish.action]  # type: ignore[assignment]
    if control.desired == aim:
        return None
    override = None
    if aim != control.declared:
        override = Override(aim, wish.author, _reason(control, wish), wish.at)
    said = f"asked to {wish.action}" + (f": {wish.reason}" if wish.reason else "")
    return replace(_desire(control, aim, run_id, _Asked(wish.by, wish.at, said)), override=override)


def first(stream: str, declared: Desired, wish: Wish, run_id: str) -> Control:
    """Return the document of a stream that was never deployed, before the wish is granted."""
    at_first: Desired = "stopped" if declared == "running" else declared
    return Control(stream, at_first, run_id, wish.at, wish.by, "first deployment", declared=declared)


def _start(control: Control, wish: Wish, run_id: str) -> Control | None:
    if _stays_at_rest(control):
        ends_hold = wish.action == "restart" and control.hold is not None
        return replace(control, hold=None) if ends_hold else None
    if control.desired == "running":
        asked_again = wish.action == "run" or control.requested_by == wish.by
        if asked_again:
            return None
    asked = _Asked(wish.by, wish.at, f"asked to {wish.action}")
    started = _desire(control, "running", run_id, asked)
    override = control.override if control.desired == "running" else None
    hold = None if wish.action == "restart" else control.hold
    return replace(started, override=override, hold=hold)


def _stays_at_rest(control: Control) -> bool:
    """Whether only `resume` may start it: it is suspended, or the YAML declares it stopped."""
    if control.desired == "suspended":
        return True
    return control.desired == "stopped" and control.declared != "running"


def _desire(control: Control, desired: Desired, run_id: str, asked: _Asked) -> Control:
    changed = replace(
        control,
        desired=desired,
        requested_at=asked.at,
        requested_by=asked.by,
        reason=asked.reason,
    )
    if desired != "running":
        return changed
    # A driver that drains for an earlier stop keeps draining, and the new one has its own name.
    return replace(changed, run_id=run_id, restarts=(), release=None)


def _reason(control: Control, wish: Wish) -> str:
    if wish.reason or wish.action == "stop":
        return wish.reason
    raise WishError(
        f"stream {control.stream}: expected a reason to {wish.action} it, which its YAML declares"
        f" {control.declared}; found none. Trigger the DAG again with the field `reason`."
    )
