"""State and rows of ``fraud_watch``, versioned.

A change of a state's fields, or of the names of the states, is a change of ``STATE_SCHEMA_VERSION``.

Bound per key: one `FraudState`, whose window holds fewer than ``velocity_count`` transactions (so four by
default), because as many as that are a breach, which clears it. Beside it, as for every stream,
``max_held_events`` held events and as many remembered ids.

Amounts are whole millionths of the currency: adding them up is exact and does not depend on the order.
"""

from typing import NamedTuple

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
    """One row of the table ``fraud_alerts``, its time in milliseconds since 1970 UTC.

    Count and amount are those of the velocity window when the alert was raised.
    """

    alert_id: str
    account_id: str
    kind: str
    raised_ms: int
    previous_state: str
    reason: str
    transaction_count: int
    amount: float
    evidence: tuple[str, ...]


class FraudSummary(NamedTuple):
    """One row of the table ``fraud_summaries``, times in milliseconds since 1970 UTC.

    Counts and amount are those since the account was opened.
    """

    summary_id: str
    account_id: str
    state: str
    opened_ms: int
    closed_ms: int
    transaction_count: int
    amount: float
    alert_count: int
    close_reason: str
