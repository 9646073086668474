"""The life of an account as one table of transitions. Pure.

What an event or a timeout does is decided here alone; docs/streams/fraud_watch.md is drawn from it. Every
pair of a state and a trigger that can meet has its row, also where nothing changes. A row that stays in its
state writes nothing.
"""

from typing import NamedTuple

from spark_jobs.fraud_watch.model import (
    ALERT_FLAGGED,
    ALERT_SUSPICIOUS,
    AUTHENTICATED,
    CASE_CLOSED,
    CLOSED_CASE,
    CLOSED_EXPIRED,
    CLOSED_IDLE,
    CLOSED_SAFETY,
    FLAGGED,
    INACTIVE,
    REVIEW_CONFIRMED,
    SUSPICIOUS,
    TRANSACTION,
    WATCHING,
)
from stateward.runtime.api.diagram import OUTSIDE, Edge, block, picture, table

# Triggers: the kinds of events, and these.
OTHER = "other"  # an event of any other kind
VELOCITY = "velocity"  # the transaction just counted makes a breach
AUTHENTICATED_LATE = "authenticated_late"  # authenticated, but not soon enough after becoming suspicious
IDLE = "idle"
REVIEW_OVER = "review_over"
SAFETY = "safety"

KINDS = frozenset({TRANSACTION, AUTHENTICATED, REVIEW_CONFIRMED, CASE_CLOSED})

_HEAD = ("state", "trigger", "next state", "row written", "velocity window")


class Transition(NamedTuple):
    """One row of the table.

    Attributes:
        state: The state an account is in.
        trigger: What happens.
        to: The state it is in afterwards; ``inactive`` is the removal of all that is kept.
        alert: The kind of the alert that is raised, if any.
        summary: The close reason of the summary row, if any.
        clears_window: Whether the velocity window is cleared.
    """

    state: str
    trigger: str
    to: str
    alert: str | None = None
    summary: str | None = None
    clears_window: bool = False


_TABLE = (
    Transition(INACTIVE, TRANSACTION, WATCHING),
    Transition(INACTIVE, AUTHENTICATED, INACTIVE),
    Transition(INACTIVE, REVIEW_CONFIRMED, INACTIVE),
    Transition(INACTIVE, CASE_CLOSED, INACTIVE),
    Transition(INACTIVE, OTHER, INACTIVE),
    Transition(WATCHING, TRANSACTION, WATCHING),
    Transition(WATCHING, VELOCITY, SUSPICIOUS, alert=ALERT_SUSPICIOUS, clears_window=True),
    Transition(WATCHING, AUTHENTICATED, WATCHING),
    Transition(WATCHING, REVIEW_CONFIRMED, WATCHING),
    Transition(WATCHING, CASE_CLOSED, WATCHING),
    Transition(WATCHING, OTHER, WATCHING),
    Transition(WATCHING, IDLE, INACTIVE, summary=CLOSED_IDLE),
    Transition(WATCHING, SAFETY, INACTIVE, summary=CLOSED_SAFETY),
    Transition(SUSPICIOUS, TRANSACTION, SUSPICIOUS),
    Transition(SUSPICIOUS, VELOCITY, FLAGGED, alert=ALERT_FLAGGED, clears_window=True),
    Transition(SUSPICIOUS, AUTHENTICATED, WATCHING, clears_window=True),
    Transition(SUSPICIOUS, AUTHENTICATED_LATE, SUSPICIOUS),
    Transition(SUSPICIOUS, REVIEW_CONFIRMED, FLAGGED, alert=ALERT_FLAGGED, clears_window=True),
    Transition(SUSPICIOUS, CASE_CLOSED, SUSPICIOUS),
    Transition(SUSPICIOUS, OTHER, SUSPICIOUS),
    Transition(SUSPICIOUS, IDLE, INACTIVE, summary=CLOSED_IDLE),
    Transition(SUSPICIOUS, SAFETY, INACTIVE, summary=CLOSED_SAFETY),
    Transition(FLAGGED, TRANSACTION, FLAGGED),
    Transition(FLAGGED, AUTHENTICATED, FLAGGED),
    Transition(FLAGGED, REVIEW_CONFIRMED, FLAGGED),
    Transition(FLAGGED, CASE_CLOSED, INACTIVE, summary=CLOSED_CASE),
    Transition(FLAGGED, OTHER, FLAGGED),
    Transition(FLAGGED, REVIEW_OVER, INACTIVE, summary=CLOSED_EXPIRED),
    Transition(FLAGGED, SAFETY, INACTIVE, summary=CLOSED_SAFETY),
)
TRANSITIONS = {(row.state, row.trigger): row for row in _TABLE}


def transition(state: str, trigger: str) -> Transition:
    """The row of the table. A state that another release wrote has the safety timeout only."""
    row = TRANSITIONS.get((state, trigger))
    if row is not None:
        return row
    if trigger == SAFETY:
        return Transition(state, trigger, INACTIVE, summary=CLOSED_SAFETY)
    return Transition(state, trigger, state)


def drawn() -> str:
    """The table as docs/streams/fraud_watch.md shows it: the picture has what changes or writes something."""
    edges, rows = [], []
    for row in _TABLE:
        written = f"alert {row.alert}" if row.alert else f"summary {row.summary}" if row.summary else ""
        stays = row.to == row.state
        rows.append(
            (
                row.state,
                f"`{row.trigger}`",
                "-" if stays else row.to,
                written,
                "cleared" if row.clears_window else "",
            )
        )
        if written or not stays:
            state, to = (OUTSIDE if name == INACTIVE else name for name in (row.state, row.to))
            edges.append(Edge(state, to, f"{row.trigger} / {written}" if written else row.trigger))
    return block("spark_jobs.fraud_watch.transitions", picture(edges), table(_HEAD, rows))
