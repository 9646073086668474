"""Sessions from a login to the next logout, counted per user. Pure.

Writing a login as ``i``, a logout as ``o``, and the timeout as nine columns::

    i----o              LOGOUT at o
    i--------|          TIMEOUT at |, the deadline; a logout there or later finds no login open
    i--i----o           RELOGIN at the second i, which opens a session of its own

Every login becomes exactly one session, and every other event ends a session or is an anomaly. What is left
then is the count, until the user has been idle for long enough.

With eager emission an event can be older than those before it. It is acted on as it arrives, and what has
been written stays: a logout from before the open login is an anomaly, a login from before it is a session
that ends when the open one began.
"""

from dataclasses import dataclass

from spark_jobs.user_activity.model import (
    CLOSED_LOGOUT,
    CLOSED_RELOGIN,
    CLOSED_TIMEOUT,
    LOGIN,
    LOGOUT,
    LOGOUT_AFTER_TIMEOUT,
    LOGOUT_WITHOUT_LOGIN,
    UNKNOWN_ACTIVITY,
    ActivityAnomaly,
    ActivityEvent,
    ActivitySession,
    ActivitySettings,
    ActivityState,
)
from stateward.runtime.api.key_logic import NO_ROWS, Rows, row_id


@dataclass(frozen=True)
class ActivityLogic:
    """`stateward.runtime.api.key_logic.KeyLogic` of the stream."""

    settings: ActivitySettings

    def apply(
        self, key: str, state: ActivityState | None, event: ActivityEvent
    ) -> tuple[ActivityState | None, Rows]:
        """Open a session, close one, or write an anomaly."""
        noted = _noted(state, event)
        if event.activity == LOGIN:
            return self._log_in(key, noted, event)
        if event.activity == LOGOUT:
            return _log_out(key, noted, event)
        return _or_nothing(noted), (anomaly(key, event, UNKNOWN_ACTIVITY),)

    def deadline(self, state: ActivityState) -> int:
        """The timeout after the open login; with none open, the idle time after the newest event."""
        if state.login_ms is not None:
            return state.login_ms + self.settings.session_timeout_ms
        return state.last_ms + self.settings.counter_idle_ms

    def expire(self, key: str, state: ActivityState, at_ms: int) -> tuple[ActivityState | None, Rows]:
        """Close the open session, or forget the count; ``at_ms`` is the deadline."""
        if state.login_ms is None:
            return None, NO_ROWS
        row = close(key, state, state.login_ms, at_ms, CLOSED_TIMEOUT)
        return ActivityState(row.session_count, state.last_ms, timed_out=True), (row,)

    def _log_in(self, user_id: str, state: ActivityState, event: ActivityEvent) -> tuple[ActivityState, Rows]:
        session_id = identity(user_id, event)
        if state.login_ms is None:
            return ActivityState(state.session_count, state.last_ms, event.event_ms, session_id), NO_ROWS
        if event.event_ms < state.login_ms:
            # Only with eager emission: the open session stays, and this one ended at its login at the latest.
            row = self._overtaken(user_id, state._replace(session_id=session_id), event.event_ms)
            return state._replace(session_count=row.session_count), (row,)
        row = close(user_id, state, state.login_ms, event.event_ms, CLOSED_RELOGIN)
        return ActivityState(row.session_count, state.last_ms, event.event_ms, session_id), (row,)

    def _overtaken(self, user_id: str, state: ActivityState, login_ms: int) -> ActivitySession:
        """The session of a login that arrived after the newer one of the state."""
        due_ms = login_ms + self.settings.session_timeout_ms
        if state.login_ms is None or due_ms <= state.login_ms:
            return close(user_id, state, login_ms, due_ms, CLOSED_TIMEOUT)
        return close(user_id, state, login_ms, state.login_ms, CLOSED_RELOGIN)


def identity(user_id: str, event: ActivityEvent) -> str:
    """Identity of a session, from its login, or of an anomaly: the same on every run.

    The event id is part of it because two events of a user can have the same millisecond.
    """
    return row_id(user_id, event.event_ms, event.event_id)


def close(user_id: str, state: ActivityState, login_ms: int, logout_ms: int, reason: str) -> ActivitySession:
    """The row of a closed session, the next one of its user; times in milliseconds since 1970 UTC."""
    return ActivitySession(
        session_id=state.session_id,
        user_id=user_id,
        session_count=state.session_count + 1,
        login_ms=login_ms,
        logout_ms=logout_ms,
        duration_ms=logout_ms - login_ms,
        close_reason=reason,
    )


def anomaly(user_id: str, event: ActivityEvent, reason: str) -> ActivityAnomaly:
    """The row of an event that belongs to no session."""
    return ActivityAnomaly(
        anomaly_id=identity(user_id, event),
        user_id=user_id,
        event_id=event.event_id,
        occurred_ms=event.event_ms,
        activity=event.activity,
        reason=reason,
    )


def _noted(state: ActivityState | None, event: ActivityEvent) -> ActivityState:
    """The state with the event in its times; any event shows that the user is there."""
    if state is None:
        return ActivityState(0, event.event_ms)
    return state._replace(last_ms=max(state.last_ms, event.event_ms))


def _log_out(user_id: str, state: ActivityState, event: ActivityEvent) -> tuple[ActivityState | None, Rows]:
    if state.login_ms is not None and state.login_ms <= event.event_ms:
        row = close(user_id, state, state.login_ms, event.event_ms, CLOSED_LOGOUT)
        return ActivityState(row.session_count, state.last_ms), (row,)
    reason = LOGOUT_AFTER_TIMEOUT if state.timed_out else LOGOUT_WITHOUT_LOGIN
    return _or_nothing(state._replace(timed_out=False)), (anomaly(user_id, event, reason),)


def _or_nothing(state: ActivityState) -> ActivityState | None:
    """The state, or None when it says nothing: no session was completed, and none is open."""
    return state if state.session_count or state.login_ms is not None else None
