"""The life of a device as one table of transitions. Pure.

What a reading or a timeout does is decided here alone; docs/streams/device_lifecycle.md is drawn from it.
Every pair of a mode and a trigger that can meet has its row, also where the mode stays. Every row writes the
device's status; those with an alert write that too.
"""

from typing import NamedTuple

from spark_jobs.device_lifecycle.model import (
    ABSENT,
    ALERT_BACK_ONLINE,
    ALERT_OFFLINE,
    ERROR,
    FINAL,
    FORGOTTEN,
    IDLE,
    OFFLINE,
    RETIRED,
    RUNNING,
    UNKNOWN,
)
from stateward.runtime.api.diagram import OUTSIDE, Edge, block, picture, table

# Triggers: what a reading can say, and these.
OTHER = "other"  # a reading with any other status
OLDER = "older"  # a reading from before what is known already; there are some with eager emission only
OFFLINE_AFTER = "offline_after"  # the timeouts have the names of their settings
FORGET_AFTER = "forget_after"


class Transition(NamedTuple):
    """One row of the table.

    Attributes:
        state: The mode a device is in.
        trigger: What happens.
        to: The mode it is in afterwards; of one that is ``retired`` or ``forgotten`` nothing is kept.
        alert: The kind of the alert that is raised, if any.
    """

    state: str
    trigger: str
    to: str
    alert: str | None = None


_TABLE = (
    Transition(ABSENT, RUNNING, RUNNING),
    Transition(ABSENT, IDLE, IDLE),
    Transition(ABSENT, ERROR, ERROR),
    Transition(ABSENT, RETIRED, RETIRED),
    Transition(ABSENT, OTHER, UNKNOWN),
    Transition(RUNNING, RUNNING, RUNNING),
    Transition(RUNNING, IDLE, IDLE),
    Transition(RUNNING, ERROR, ERROR),
    Transition(RUNNING, RETIRED, RETIRED),
    Transition(RUNNING, OTHER, RUNNING),
    Transition(RUNNING, OLDER, RUNNING),
    Transition(RUNNING, OFFLINE_AFTER, OFFLINE, alert=ALERT_OFFLINE),
    Transition(IDLE, RUNNING, RUNNING),
    Transition(IDLE, IDLE, IDLE),
    Transition(IDLE, ERROR, ERROR),
    Transition(IDLE, RETIRED, RETIRED),
    Transition(IDLE, OTHER, IDLE),
    Transition(IDLE, OLDER, IDLE),
    Transition(IDLE, OFFLINE_AFTER, OFFLINE, alert=ALERT_OFFLINE),
    Transition(ERROR, RUNNING, RUNNING),
    Transition(ERROR, IDLE, IDLE),
    Transition(ERROR, ERROR, ERROR),
    Transition(ERROR, RETIRED, RETIRED),
    Transition(ERROR, OTHER, ERROR),
    Transition(ERROR, OLDER, ERROR),
    Transition(ERROR, OFFLINE_AFTER, OFFLINE, alert=ALERT_OFFLINE),
    Transition(UNKNOWN, RUNNING, RUNNING),
    Transition(UNKNOWN, IDLE, IDLE),
    Transition(UNKNOWN, ERROR, ERROR),
    Transition(UNKNOWN, RETIRED, RETIRED),
    Transition(UNKNOWN, OTHER, UNKNOWN),
    Transition(UNKNOWN, OLDER, UNKNOWN),
    Transition(UNKNOWN, OFFLINE_AFTER, OFFLINE, alert=ALERT_OFFLINE),
    Transition(OFFLINE, RUNNING, RUNNING, alert=ALERT_BACK_ONLINE),
    Transition(OFFLINE, IDLE, IDLE, alert=ALERT_BACK_ONLINE),
    Transition(OFFLINE, ERROR, ERROR, alert=ALERT_BACK_ONLINE),
    Transition(OFFLINE, RETIRED, RETIRED, alert=ALERT_BACK_ONLINE),
    Transition(OFFLINE, OTHER, UNKNOWN, alert=ALERT_BACK_ONLINE),
    Transition(OFFLINE, OLDER, OFFLINE),
    Transition(OFFLINE, FORGET_AFTER, FORGOTTEN),
)
TRANSITIONS = {(row.state, row.trigger): row for row in _TABLE}


def transition(state: str, trigger: str) -> Transition:
    """The row of the table. A mode that another release wrote is taken for ``unknown``."""
    row = TRANSITIONS.get((state, trigger))
    return TRANSITIONS[UNKNOWN, trigger] if row is None else row


def drawn() -> str:
    """The table as docs/streams/device_lifecycle.md shows it: the picture has what changes the mode."""
    edges, rows = [], []
    for row in _TABLE:
        stays, alert = row.to == row.state, f"alert {row.alert}" if row.alert else ""
        written = f"{alert}, status" if alert else "status"
        rows.append((row.state, f"`{row.trigger}`", "-" if stays else row.to, written))
        if not stays:
            state = OUTSIDE if row.state == ABSENT else row.state
            edges.append(Edge(state, row.to, f"{row.trigger} / {alert}" if alert else row.trigger))
    edges += [Edge(mode, OUTSIDE) for mode in FINAL]
    head = ("mode", "trigger", "next mode", "rows written")
    return block("spark_jobs.device_lifecycle.transitions", picture(edges), table(head, rows))
