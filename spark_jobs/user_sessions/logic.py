"""Sessions of one user: open, merge, close. Pure.

A session is a maximal run of events, each *less than* the gap after the one before it. Writing the gap as
four columns and the watermark as ``W``::

    events     a  b     c                 a and b are 3 apart: one session
               |--|---->|                 b and c are the gap apart: c starts another
    close            W here or later      b + gap <= W: no event below the gap can still come

An ``is_last`` event joins its session and ends it at once. The latest ``timeout_ms`` by event time is the
gap of its session from then on; the next session starts with the default again.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from spark_jobs.runtime.admission import Admission, Limits, admit, forgotten_at, order
from spark_jobs.user_sessions.model import ENDED, TIMEOUT, ClosedSession, OpenSession, SessionEvent, UserState


@dataclass(frozen=True)
class Step:
    """What one call did: the new state, the sessions that closed, and the verdict on the arrivals."""

    state: UserState
    closed: tuple[ClosedSession, ...]
    admission: Admission[SessionEvent]


def session_id(user_id: str, first: SessionEvent) -> str:
    """Identity of a session, from its user and its first event.

    The event id is part of it because two sessions of a user can start in the same millisecond.
    """
    identity = f"{user_id}\x00{first.event_ms}\x00{first.event_id}"
    return hashlib.sha256(identity.encode()).hexdigest()[:32]


def open_session(user_id: str, event: SessionEvent, default_gap_ms: int) -> OpenSession:
    """A new session that starts with ``event``."""
    return OpenSession(
        session_id=session_id(user_id, event),
        started_ms=event.event_ms,
        last_ms=event.event_ms,
        event_count=1,
        last_event_type=event.event_type,
        gap_ms=event.timeout_ms or default_gap_ms,
    )


def merge(session: OpenSession, event: SessionEvent) -> OpenSession:
    """The session with ``event`` at its end."""
    return replace(
        session,
        last_ms=event.event_ms,
        event_count=session.event_count + 1,
        last_event_type=event.event_type,
        gap_ms=event.timeout_ms or session.gap_ms,
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


def fold(
    user_id: str, session: OpenSession | None, events: Iterable[SessionEvent], default_gap_ms: int
) -> tuple[OpenSession | None, list[ClosedSession]]:
    """Fold events, sorted by ``(event time, id)``, into the open session.

    Returns:
        The session left open, and those that closed on the way.
    """
    closed: list[ClosedSession] = []
    for event in events:
        if session is not None and event.event_ms - session.last_ms >= session.gap_ms:
            closed.append(close(user_id, session, TIMEOUT))
            session = None
        session = merge(session, event) if session else open_session(user_id, event, default_gap_ms)
        if event.is_last:
            closed.append(close(user_id, session, ENDED))
            session = None
    return session, closed


def advance(
    user_id: str,
    state: UserState,
    arrivals: Iterable[SessionEvent],
    *,
    watermark_ms: int,
    default_gap_ms: int,
    limits: Limits,
) -> Step:
    """Admit arrivals, fold what the watermark has passed, and close what can grow no more.

    Args:
        user_id: The key.
        state: State before.
        arrivals: New events; empty when a timer fired.
        watermark_ms: The watermark of this micro-batch.
        default_gap_ms: The stream's gap.
        limits: Allowed lateness and bound.
    """
    admission = admit(
        state.held, state.recent, arrivals, floor_ms=state.floor_ms, watermark_ms=watermark_ms, limits=limits
    )
    session, closed = fold(user_id, state.session, admission.ready, default_gap_ms)
    if session is not None and session.last_ms + session.gap_ms <= watermark_ms:
        closed.append(close(user_id, session, TIMEOUT))
        session = None
    after = UserState(session, admission.held, admission.recent, admission.floor_ms)
    return Step(after, tuple(closed), admission)


def next_wake_up(user_id: str, state: UserState, *, default_gap_ms: int, limits: Limits) -> int | None:
    """The earliest watermark (ms) at which there is something to do; None for an empty state.

    To do is to emit a row or to remove the state.

    Held events are folded only in thought: what they would emit sets the alarm, not each of them. So a key
    wakes up once per session and not once per event.
    """
    if state.session is None and not state.held:
        return max((forgotten_at(seen, limits) for seen in state.recent), default=None)
    session = state.session
    for event in state.held:
        before = session
        session, closed = fold(user_id, session, (event,), default_gap_ms)
        if closed and before is not None and closed[0].close_reason == TIMEOUT:
            return before.last_ms + before.gap_ms
        if closed:
            return event.event_ms + 1
    assert session is not None  # no event of the loop closed it, and there was a session or an event
    return session.last_ms + session.gap_ms


def fold_all(user_id: str, events: Iterable[SessionEvent], default_gap_ms: int) -> list[ClosedSession]:
    """The oracle: all sessions of a user's events, seen at once and in order, the last one timed out.

    Of events with the same id only the first by event time counts.
    """
    distinct: dict[str, SessionEvent] = {}
    for event in sorted(events, key=order):
        distinct.setdefault(event.event_id, event)
    session, closed = fold(user_id, None, distinct.values(), default_gap_ms)
    return closed if session is None else [*closed, close(user_id, session, TIMEOUT)]
