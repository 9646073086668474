"""Sessions of one user: open, merge, close. Pure.

A session is a maximal run of events, each *less than* the gap after the one before it. Writing the gap as
four columns and the watermark as ``W``::

    events     a  b     c                 a and b are 3 apart: one session
               |--|---->|                 b and c are the gap apart: c starts another
    close            W here or later      b + gap <= W: no event below the gap can still come

An ``is_last`` event joins its session and ends it at once. The latest ``timeout_ms`` by event time is the
gap of its session from then on; the next session starts with the default again.
"""

from dataclasses import dataclass

from spark_jobs.user_sessions.model import ENDED, TIMEOUT, ClosedSession, OpenSession, SessionEvent
from stateward.runtime.api.key_logic import NO_ROWS, Rows, row_id


@dataclass(frozen=True)
class SessionLogic:
    """`stateward.runtime.api.key_logic.KeyLogic` of the stream.

    Attributes:
        gap_ms: The stream's gap.
    """

    gap_ms: int

    def apply(
        self, key: str, state: OpenSession | None, event: SessionEvent
    ) -> tuple[OpenSession | None, Rows]:
        """Open a session with ``event``, or put it at the end of the open one."""
        session = merge(state, event) if state else open_session(key, event, self.gap_ms)
        if event.is_last:
            return None, (close(key, session, ENDED),)
        return session, NO_ROWS

    def deadline(self, state: OpenSession) -> int:
        """The gap after the last event."""
        return state.last_ms + state.gap_ms

    def expire(self, key: str, state: OpenSession, at_ms: int) -> tuple[None, Rows]:
        """Close the session; ``at_ms`` is its deadline."""
        return None, (close(key, state, TIMEOUT),)


def session_id(user_id: str, first: SessionEvent) -> str:
    """Identity of a session, from its user and its first event.

    The event id is part of it because two sessions of a user can start in the same millisecond.
    """
    return row_id(user_id, first.event_ms, first.event_id)


def open_session(user_id: str, event: SessionEvent, default_gap_ms: int) -> OpenSession:
    """A new session that starts with ``event``."""
    return OpenSession(
        session_id(user_id, event),
        event.event_ms,
        event.event_ms,
        1,
        event.event_type,
        event.timeout_ms or default_gap_ms,
    )


def merge(session: OpenSession, event: SessionEvent) -> OpenSession:
    """The session with ``event`` at its end; an older event, as eager emission has them, only counts."""
    if event.event_ms < session.last_ms:
        started_ms = min(session.started_ms, event.event_ms)
        return session._replace(started_ms=started_ms, event_count=session.event_count + 1)
    return OpenSession(
        session.session_id,
        session.started_ms,
        event.event_ms,
        session.event_count + 1,
        event.event_type,
        event.timeout_ms or session.gap_ms,
    )


def close(user_id: str, session: OpenSession, reason: str) -> ClosedSession:
    """The row of a closed session; ``closed_ms`` is event time, so it is the same on every run."""
    return ClosedSession(
        session_id=session.session_id,
        user_id=user_id,
        started_ms=session.started_ms,
        ended_ms=session.last_ms,
        duration_ms=session.last_ms - session.started_ms,
        event_count=session.event_count,
        last_event_type=session.last_event_type,
        close_reason=reason,
        closed_ms=session.last_ms if reason == ENDED else session.last_ms + session.gap_ms,
    )
