"""State and rows of ``fraud_watch``, versioned.

A change of a state's fields, or of the names of the states, is a change of ``STATE_SCHEMA_VERSION``.

Bound per key: one `FraudState`, whose window holds fewer than ``velocity_count`` transactions (so four by
default), because as many as that are a breach, which clears it. Beside it, as for every stream,
``max_held_events`` held events and as many remembered ids.

Amounts are whole millionths of the currency: adding them up is exact and does not depend on the order.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from stateward.contract.columns import Col, Timestamp
from stateward.contract.stream_settings import (
    HOUR,
    MINUTE,
    Between,
    SettingsError,
    StreamSettings,
    duration_text,
)

STATE_SCHEMA_VERSION = 1

# Kinds of events.
TRANSACTION = "transaction"
AUTHENTICATED = "authenticated"
REVIEW_CONFIRMED = "review_confirmed"
CASE_CLOSED = "case_closed"

# States of an account. One that is inactive has nothing kept.
INACTIVE = "inactive"
WATCHING = "watching"
SUSPICIOUS = "suspicious"
FLAGGED = "flagged"
STATES = (INACTIVE, WATCHING, SUSPICIOUS, FLAGGED)

# Kinds of alerts, and why they are raised.
ALERT_SUSPICIOUS = "SUSPICIOUS"
ALERT_FLAGGED = "FLAGGED"
REASON_COUNT = "VELOCITY_COUNT"
REASON_AMOUNT = "VELOCITY_AMOUNT"
REASON_REVIEW = "REVIEW_CONFIRMED"

# Why an account is watched no longer.
CLOSED_IDLE = "IDLE"
CLOSED_CASE = "CASE_CLOSED"
CLOSED_EXPIRED = "EXPIRED"
CLOSED_SAFETY = "SAFETY"

MICROS = 1_000_000
MAX_MICROS = 2**63 - 1
"""Totals stop here: what is kept has 64 bits. Nine of the largest payments reach it."""

MAX_EVIDENCE = 20
"""Largest number of event ids in an alert; of more, the newest."""


@dataclass(frozen=True, kw_only=True)
class FraudSettings(StreamSettings):
    """When an account is suspicious, and when it is forgotten; see docs/streams/fraud_watch.md.

    Attributes:
        velocity_count: So many transactions within the window are a breach.
        velocity_amount: Transactions of this total within the window are a breach too.
        velocity_window_ms: Length of the sliding window.
        authentication_window_ms: How long after becoming suspicious an authentication clears the account.
        idle_ms: An account that is not flagged is forgotten after this long without an event.
        review_ms: How long a flagged account waits for its case to be closed.
        safety_ms: A state of any kind is removed after this time; longer than all the others.
        max_held_events: Events of an account that wait for the watermark.
    """

    velocity_count: Annotated[int, Between(1, 1000)] = 5
    velocity_amount: Annotated[float, Between(0.000001, 1e12)] = 5000.0
    velocity_window_ms: int = 10 * MINUTE
    authentication_window_ms: int = 2 * MINUTE
    idle_ms: int = 30 * MINUTE
    review_ms: int = 24 * HOUR
    safety_ms: int = 25 * HOUR
    max_held_events: int = 10_000

    def check(self) -> None:
        """Refuse settings that contradict each other."""
        longest_ms = max(self.idle_ms, self.review_ms)
        if self.safety_ms <= longest_ms:
            raise SettingsError(
                "logic.safety to be longer than logic.idle and logic.review"
                f" ({duration_text(longest_ms)}), so that it removes only what they have missed"
            )
        if max(self.velocity_window_ms, self.authentication_window_ms) > self.idle_ms:
            raise SettingsError(
                "logic.velocity_window and logic.authentication_window to be at most logic.idle"
                f" ({duration_text(self.idle_ms)}), after which an account is forgotten"
            )


class PaymentEvent(NamedTuple):
    """One accepted event of an account.

    Attributes:
        event_id: Identity within the account.
        event_ms: Event time, milliseconds since 1970 UTC.
        kind: One of the four kinds, or any other, which only shows that the account is in use.
        amount_micros: Amount in millionths; 0 when the event names none.
    """

    event_id: str
    event_ms: int
    kind: str
    amount_micros: int = 0


class Payment(NamedTuple):
    """One transaction in the velocity window."""

    event_ms: int
    event_id: str
    amount_micros: int


class FraudState(NamedTuple):
    """An account that is watched; times in milliseconds since 1970 UTC.

    Attributes:
        name: The state: ``watching``, ``suspicious`` or ``flagged``.
        opened_ms: Time of the first transaction.
        entered_ms: When it came into this state.
        last_ms: Time of the newest event.
        summary_id: Identity of the row that will sum it up.
        window: Transactions that may still become a breach, by time.
        transaction_count: Transactions since it was opened.
        amount_micros: Their total, at most `MAX_MICROS`.
        alert_count: Alerts since it was opened.
    """

    name: str
    opened_ms: int
    entered_ms: int
    last_ms: int
    summary_id: str
    window: tuple[Payment, ...] = ()
    transaction_count: int = 0
    amount_micros: int = 0
    alert_count: int = 0


class FraudAlert(NamedTuple):
    """One alert about one account.

    Count and amount are those of the velocity window when the alert was raised.
    """

    alert_id: Annotated[
        str,
        Col("Identity, from the account and the event: the same on every run", derived_from=("account_id",)),
    ]
    account_id: Annotated[str, Col("The account", personal=True)]
    kind: Annotated[str, Col("SUSPICIOUS or FLAGGED: the state the account came into")]
    raised_ms: Annotated[int, Timestamp("Event time of the event that raised it")]
    previous_state: Annotated[str, Col("State the account was in before", nullable=True)]
    reason: Annotated[str, Col("VELOCITY_COUNT, VELOCITY_AMOUNT or REVIEW_CONFIRMED")]
    transaction_count: Annotated[int, Col("Transactions in the velocity window", nullable=True)]
    amount: Annotated[float, Col("Their total")]
    evidence: Annotated[tuple[str, ...], Col("Ids of its events, at most the newest 20")]


class FraudSummary(NamedTuple):
    """One account that is watched no longer.

    Count and amount are those since the account was opened.
    """

    summary_id: Annotated[
        str, Col("Identity, from the account and its first transaction", derived_from=("account_id",))
    ]
    account_id: Annotated[str, Col("The account", personal=True)]
    state: Annotated[str, Col("State it was in at the end: watching, suspicious or flagged", nullable=True)]
    opened_ms: Annotated[int, Timestamp("Time of the first transaction")]
    closed_ms: Annotated[int, Timestamp("Event time of case_closed, or at which the timeout was due")]
    transaction_count: Annotated[int, Col("Transactions since opened_at", nullable=True)]
    amount: Annotated[float, Col("Their total", nullable=True)]
    alert_count: Annotated[int, Col("Alerts since opened_at", nullable=True)]
    close_reason: Annotated[str, Col("IDLE, CASE_CLOSED, EXPIRED, or SAFETY for what should not happen")]
