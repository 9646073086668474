"""Sessions of one user: open, merge, close. Pure.

A session is a maximal run of events, each *less than* the gap after the one before it. Writing the gap as
four columns and the watermark as ``W``::

    events     a  b     c                 a and b are 3 apart: one session
               |--|---->|                 b and c are the gap apart: c starts another
    close            W here or later      b + gap <= W: no event below the gap can still come

An ``is_last`` event joins its session and ends it at once. The latest ``timeout_ms`` by event time is the
gap of its session from then on; the next session starts with the default again.

Each event and each end also gives a row of the optional table ``current_sessions``, and each end one of
``session_events``, where the stream writes them.
"""

from bisect import bisect
from dataclasses import dataclass

from spark_jobs.user_sessions.model import (
    ENDED,
    TIMEOUT,
    ClosedSession,
    CurrentSession,
    KeptEvent,
    OpenSession,
    SessionEvent,
    SessionEvents,
)
from stateward.runtime.api.key_logic import NO_ROWS, Rows, row_id


@dataclass(frozen=True)
class SessionLogic:
    """`stateward.runtime.api.key_logic.KeyLogic` of the stream.

    Attributes:
        gap_ms: The stream's gap.
        max_events: How many events of a session are kept; 0 without the table of them.
        with_updates: Whether each event gives a row of the current session.
    """

    gap_ms: int
    max_events: int = 0
    with_updates: bool = False

    def apply(
        self, key: str, state: OpenSession | None, event: SessionEvent
    ) -> tuple[OpenSession | None, Rows]:
        """Open a session with ``event``, or put it at the end of the open one."""
        session = merge(state, event) if state else open_session(key, event, self.gap_ms)
        if self.max_events:
            before = state.first_events if state else ()
            session = session._replace(first_events=keep(before, event, self.max_events))
        if event.is_last:
            return None, self._closed(key, session, ENDED)
        return session, (current(key, session),) if self.with_updates else NO_ROWS

    def deadline(self, state: OpenSession) -> int:
        """The gap after the last event."""
        return state.last_ms + state.gap_ms

    def expire(self, key: str, state: OpenSession, at_ms: int) -> tuple[None, Rows]:
        """Close the session; ``at_ms`` is its deadline."""
        return None, self._closed(key, state, TIMEOUT)

    def _closed(self, key: str, session: OpenSession, reason: str) -> Rows:
        row = close(key, session, reason)
        rows: list[tuple[object, ...]] = [row]
        if self.max_events:
            rows.append(events_of(row, session.first_events[: self.max_events]))
        if self.with_updates:
            rows.append(ended(row))
        return rows


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


def keep(events: tuple[KeptEvent, ...], event: SessionEvent, most: int) -> tuple[KeptEvent, ...]:
    """The first ``most`` of the events with ``event``, by event time, then id."""
    kept = KeptEvent(event.event_ms, event.event_id, event.event_type)
    if not events or events[-1] < kept:
        return events if len(events) >= most else (*events, kept)
    at = bisect(events, kept)
    return (*events[:at], kept, *events[at:])[:most]


def events_of(row: ClosedSession, events: tuple[KeptEvent, ...]) -> SessionEvents:
    """The row with the events of a closed session."""
    return SessionEvents(
        session_id=row.session_id,
        user_id=row.user_id,
        started_ms=row.started_ms,
        event_count=row.event_count,
        left_out=row.event_count - len(events),
        event_ids=tuple(event.event_id for event in events),
        event_types=tuple(event.event_type for event in events),
        offsets_ms=tuple(event.event_ms - row.started_ms for event in events),
        closed_ms=row.closed_ms,
    )


def current(user_id: str, session: OpenSession) -> CurrentSession:
    """The row of a session that is open."""
    return CurrentSession(
        user_id=user_id,
        session_id=session.session_id,
        is_open=True,
        started_ms=session.started_ms,
        last_event_ms=session.last_ms,
        duration_ms=session.last_ms - session.started_ms,
        event_count=session.event_count,
        last_event_type=session.last_event_type,
        close_reason=None,
        updated_ms=session.last_ms,
    )


def ended(row: ClosedSession) -> CurrentSession:
    """The row of the same session once it is closed."""
    return CurrentSession(
        user_id=row.user_id,
        session_id=row.session_id,
        is_open=False,
        started_ms=row.started_ms,
        last_event_ms=row.ended_ms,
        duration_ms=row.duration_ms,
        event_count=row.event_count,
        last_event_type=row.last_event_type,
        close_reason=row.close_reason,
        updated_ms=row.closed_ms,
    )
