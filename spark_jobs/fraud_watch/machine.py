"""The machine that follows the table of `transitions` for one account. Pure.

It finds out which trigger an event or a timeout is, keeps the velocity window, and writes the rows.

One rule holds for every duration: *within* means less than it. A transaction ten minutes after another is
in another window, an event 30 min after the last one finds its account inactive again.
"""

from bisect import insort
from dataclasses import dataclass
from functools import cached_property

from spark_jobs.fraud_watch.amounts import to_micros
from spark_jobs.fraud_watch.model import (
    AUTHENTICATED,
    FLAGGED,
    INACTIVE,
    MAX_EVIDENCE,
    MAX_MICROS,
    MICROS,
    REASON_AMOUNT,
    REASON_COUNT,
    REASON_REVIEW,
    SUSPICIOUS,
    TRANSACTION,
    WATCHING,
    FraudAlert,
    FraudSettings,
    FraudState,
    FraudSummary,
    Payment,
    PaymentEvent,
)
from spark_jobs.fraud_watch.transitions import (
    AUTHENTICATED_LATE,
    IDLE,
    KINDS,
    OTHER,
    REVIEW_OVER,
    SAFETY,
    VELOCITY,
    Transition,
    transition,
)
from stateward.runtime.api.key_logic import NO_ROWS, Rows, row_id


@dataclass(frozen=True)
class FraudMachine:
    """`stateward.runtime.api.key_logic.KeyLogic` of the stream."""

    settings: FraudSettings

    @cached_property
    def _velocity_amount_micros(self) -> int:
        return to_micros(self.settings.velocity_amount)

    def apply(
        self, key: str, state: FraudState | None, event: PaymentEvent
    ) -> tuple[FraudState | None, Rows]:
        """Follow the table for one event, and once more if it makes a velocity breach."""
        trigger = self._trigger(state, event)
        row = transition(state.name if state else INACTIVE, trigger)
        if state is None:
            if row.to == INACTIVE:
                return None, NO_ROWS
            state = _opened(key, row.to, event)
        state = self._noted(state, event)
        rows = NO_ROWS
        if row.to != state.name:
            # A review is the only event that raises an alert by itself.
            after, rows = _follow(key, state, row, at_ms=state.last_ms, reason=REASON_REVIEW, event=event)
            if after is None:
                return None, rows
            state = after
        reason = self._breach(state.window) if trigger == TRANSACTION else None
        if reason is None:
            return state, rows
        row = transition(state.name, VELOCITY)
        after, more = _follow(key, state, row, at_ms=state.last_ms, reason=reason, event=event)
        return after, (*rows, *more)

    def deadline(self, state: FraudState) -> int:
        """When the account's state times out."""
        return self._due(state)[0]

    def expire(self, key: str, state: FraudState, at_ms: int) -> tuple[FraudState | None, Rows]:
        """Follow the table for the timeout; ``at_ms`` is the deadline."""
        return _follow(key, state, transition(state.name, self._due(state)[1]), at_ms=at_ms)

    def _due(self, state: FraudState) -> tuple[int, str]:
        """The deadline (ms) and what it triggers. Events do not prolong a review."""
        since_ms = state.entered_ms
        if state.name in (WATCHING, SUSPICIOUS):
            since_ms, timeout_ms, trigger = state.last_ms, self.settings.idle_ms, IDLE
        elif state.name == FLAGGED:
            timeout_ms, trigger = self.settings.review_ms, REVIEW_OVER
        else:
            timeout_ms, trigger = self.settings.safety_ms, SAFETY
        if timeout_ms > self.settings.safety_ms:
            timeout_ms, trigger = self.settings.safety_ms, SAFETY
        return since_ms + timeout_ms, trigger

    def _trigger(self, state: FraudState | None, event: PaymentEvent) -> str:
        if event.kind not in KINDS:
            return OTHER
        if event.kind == AUTHENTICATED and state is not None and state.name == SUSPICIOUS:
            after_ms = event.event_ms - state.entered_ms
            if not 0 <= after_ms < self.settings.authentication_window_ms:
                return AUTHENTICATED_LATE
        return event.kind

    def _noted(self, state: FraudState, event: PaymentEvent) -> FraudState:
        """The state with the event in its times, totals and window, before any transition."""
        last_ms = max(state.last_ms, event.event_ms)
        opened_ms = min(state.opened_ms, event.event_ms)
        if event.kind != TRANSACTION:
            return state._replace(opened_ms=opened_ms, last_ms=last_ms)
        window = state.window
        if state.name in (WATCHING, SUSPICIOUS):
            window = self._slide(window, event, last_ms)
        return FraudState(
            state.name,
            opened_ms,
            state.entered_ms,
            last_ms,
            state.summary_id,
            window,
            state.transaction_count + 1,
            min(state.amount_micros + event.amount_micros, MAX_MICROS),
            state.alert_count,
        )

    def _slide(self, window: tuple[Payment, ...], event: PaymentEvent, last_ms: int) -> tuple[Payment, ...]:
        """The window that ends at the newest event, with this transaction in its place."""
        after_ms = last_ms - self.settings.velocity_window_ms
        payment = Payment(event.event_ms, event.event_id, event.amount_micros)
        if event.event_ms == last_ms and (not window or window[0].event_ms > after_ms):
            return (*window, payment)
        kept = [one for one in window if one.event_ms > after_ms]
        if payment.event_ms > after_ms:
            # Older than the newest one only with eager emission.
            insort(kept, payment)
        return tuple(kept)

    def _breach(self, window: tuple[Payment, ...]) -> str | None:
        if len(window) >= self.settings.velocity_count:
            return REASON_COUNT
        if _total(window) >= self._velocity_amount_micros:
            return REASON_AMOUNT
        return None


def _total(window: tuple[Payment, ...]) -> int:
    total = 0
    for payment in window:
        total += payment.amount_micros
    return total


def _opened(account_id: str, name: str, first: PaymentEvent) -> FraudState:
    summary_id = _identity(account_id, "summary", first)
    return FraudState(name, first.event_ms, first.event_ms, first.event_ms, summary_id)


def _identity(account_id: str, what: str, event: PaymentEvent) -> str:
    """The same on every run, so that a replay is recognised."""
    return row_id(account_id, what, event.event_ms, event.event_id)


def _follow(
    account_id: str,
    state: FraudState,
    row: Transition,
    *,
    at_ms: int,
    reason: str = "",
    event: PaymentEvent | None = None,
) -> tuple[FraudState | None, Rows]:
    """The state after a row of the table, and what it writes; ``event`` is what caused it, if anything."""
    if row.summary is not None:
        return None, (_summary(account_id, state, row.summary, at_ms),)
    if row.to == state.name:
        return state, NO_ROWS
    after = state._replace(name=row.to, entered_ms=at_ms, window=() if row.clears_window else state.window)
    if row.alert is None or event is None:
        return after, NO_ROWS
    alert = _alert(account_id, state, row.alert, at_ms=at_ms, reason=reason, event=event)
    return after._replace(alert_count=state.alert_count + 1), (alert,)


def _alert(
    account_id: str, state: FraudState, kind: str, *, at_ms: int, reason: str, event: PaymentEvent
) -> FraudAlert:
    evidence = [payment.event_id for payment in state.window]
    if event.kind != TRANSACTION:
        evidence.append(event.event_id)
    return FraudAlert(
        alert_id=_identity(account_id, kind, event),
        account_id=account_id,
        kind=kind,
        raised_ms=at_ms,
        previous_state=state.name,
        reason=reason,
        transaction_count=len(state.window),
        amount=_total(state.window) / MICROS,
        evidence=tuple(evidence[-MAX_EVIDENCE:]),
    )


def _summary(account_id: str, state: FraudState, reason: str, at_ms: int) -> FraudSummary:
    return FraudSummary(
        summary_id=state.summary_id,
        account_id=account_id,
        state=state.name,
        opened_ms=state.opened_ms,
        closed_ms=at_ms,
        transaction_count=state.transaction_count,
        amount=state.amount_micros / MICROS,
        alert_count=state.alert_count,
        close_reason=reason,
    )
