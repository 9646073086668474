"""Whether a stream that was started again has come back: it has committed a batch since. Pure.

The driver that runs is not enough: state is loaded with the first batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from stateward.contract.stream_status import Status
from stateward.control.reconcile.decide import (
    Action,
    Done,
    GiveUp,
    Held,
    Kill,
    Launch,
    Observed,
    Queued,
    Suspended,
    Wait,
)


@dataclass(frozen=True)
class Comeback:
    """What was found.

    Attributes:
        outcome: `back`: it has made progress. `quiet`: it runs, and there was nothing to read.
            `left`: it was stopped on request. `failed`: it does not run, or it runs and commits nothing.
            `open`: it is too early to tell.
        reason: As a sentence.
    """

    outcome: Literal["back", "quiet", "left", "failed", "open"]
    reason: str


@dataclass(frozen=True)
class Watch:
    """How long a stream is watched, and for what.

    Attributes:
        since: When it was started again.
        until: When it has to be back, if there is something to read.
        latest: For a whole watch, when it has to have committed something at the latest: a start takes its
            time too. `until` without it.
        whole: It has to do well up to `until`, not only to commit a batch: a driver that ends has failed,
            even if the next one would go on.
    """

    since: datetime
    until: datetime
    whole: bool = False
    latest: datetime | None = None


def comeback(seen: Observed, action: Action, watch: Watch, now: datetime) -> Comeback:
    """Judge one look at a stream.

    Args:
        seen: What was found.
        action: What `decide` says about it.
        watch: Since when, until when, and for what.
        now: The time of the look.
    """
    if isinstance(action, Done | Held | Suspended):
        return Comeback("left", action.reason)
    ended = action.reason if isinstance(action, GiveUp) else ""
    if ended or (watch.whole and (ended := _ended(seen, action, watch.since))):
        return Comeback("failed", ended)
    if isinstance(action, Queued) or _starts(seen, action, watch.since):
        # However long it takes: a start that does not get on is ended, and has failed then.
        return Comeback("open", action.reason)
    return _progress(seen.own_status, action, watch, now)


def _starts(seen: Observed, action: Action, since: datetime) -> bool:
    """Whether the driver is on its way for the first time since."""
    status = seen.own_status
    again = seen.control is not None and any(at >= since for at in seen.control.restarts)
    return isinstance(action, Wait) and not again and (status is None or status.state == "starting")


def _progress(status: Status | None, action: Action, watch: Watch, now: datetime) -> Comeback:
    """Judge a stream that has neither been stopped nor failed."""
    since, until = watch.since, watch.until
    # The driver before it has drained, so one that runs is a new one.
    running = status if status is not None and status.state == "running" else None
    if running and (now >= until or not watch.whole) and _committed(running, since):
        return Comeback("back", f"batch {running.batch_id} is committed")
    if running and running.caught_up and now >= until:
        return Comeback("quiet", f"it runs, and there was nothing to read since {since:%H:%M:%S} UTC")
    latest = watch.latest or until
    if status is not None and status.phase_at is not None:
        # What its start has taken, beside others, is no part of the time that it has to commit something.
        latest = max(latest, status.phase_at + (until - since))
    if now < latest:
        return Comeback("open", action.reason)
    waited = f"{(now - since).total_seconds():.0f} s"
    return Comeback("failed", f"no batch was committed within {waited} of its start ({action.reason})")


def _committed(status: Status, since: datetime) -> bool:
    return status.last_batch_at is not None and status.last_batch_at >= since


def _ended(seen: Observed, action: Action, since: datetime) -> str:
    """Why a driver that was to be watched to the end has not lasted; empty while it has."""
    if isinstance(action, Kill) or (isinstance(action, Launch) and action.after_failure):
        return action.reason
    again = [at for at in seen.control.restarts if at >= since] if seen.control else []
    if again:
        return f"its driver did not last: {seen.control.reason if seen.control else ''}"
    return ""
