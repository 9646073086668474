"""Whether a stream that was started again has come back: it has committed a batch since. Pure.

The driver that runs is not enough: state is loaded with the first batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from include.control.decide import Action, Done, GiveUp, Held, Observed, Suspended


@dataclass(frozen=True)
class Comeback:
    """What was found.

    Attributes:
        outcome: `back`: it has made progress. `quiet`: it runs, and there was nothing to read.
            `left`: somebody has stopped it. `failed`: it does not run, or it runs and commits nothing.
            `open`: it is too early to tell.
        reason: In words.
    """

    outcome: Literal["back", "quiet", "left", "failed", "open"]
    reason: str


def comeback(seen: Observed, action: Action, since: datetime, until: datetime, now: datetime) -> Comeback:
    """Judge one look at a stream.

    Args:
        seen: What was found.
        action: What `decide` says about it.
        since: When it was started again.
        until: When it has to be back, if there is something to read.
        now: The time of the look.
    """
    status = seen.own_status
    if isinstance(action, Done | Held | Suspended):
        return Comeback("left", action.reason)
    if isinstance(action, GiveUp):
        return Comeback("failed", action.reason)
    # The driver before it has drained, so one that runs is a new one.
    runs = status is not None and status.state == "running"
    if runs and status is not None and status.last_batch_at is not None and status.last_batch_at >= since:
        return Comeback("back", f"batch {status.batch_id} is committed")
    if now < until:
        return Comeback("open", action.reason)
    if runs and status is not None and status.caught_up:
        return Comeback("quiet", f"it runs, and there was nothing to read since {since:%H:%M:%S} UTC")
    waited = f"{(until - since).total_seconds():.0f} s"
    return Comeback("failed", f"no batch was committed within {waited} of its start ({action.reason})")
