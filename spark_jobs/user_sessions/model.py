"""State and rows of ``user_sessions``, versioned.

A change of a state's fields is a change of ``STATE_SCHEMA_VERSION``.

Bound per key: at most one open session (about 100 bytes), ``max_held_events`` held events and as many
    remembered ids.
"""

from typing import NamedTuple

STATE_SCHEMA_VERSION = 2

ENDED = "ENDED"
TIMEOUT = "TIMEOUT"


class SessionEvent(NamedTuple):
    """One accepted event of a user, reduced to what a session needs.

    Attributes:
        event_id: Identity within the user.
        event_ms: Event time, milliseconds since 1970 UTC.
        event_type: What happened.
        is_last: Whether the event ends its session.
        timeout_ms: The gap this event asks for, or None.
    """

    event_id: str
    event_ms: int
    event_type: str
    is_last: bool = False
    timeout_ms: int | None = None


class OpenSession(NamedTuple):
    """A session that may still grow; times in milliseconds since 1970 UTC, ``gap_ms`` as it holds now."""

    session_id: str
    started_ms: int
    last_ms: int
    event_count: int
    last_event_type: str
    gap_ms: int


class ClosedSession(NamedTuple):
    """One row of the table ``sessions``, times in milliseconds since 1970 UTC."""

    session_id: str
    user_id: str
    started_ms: int
    ended_ms: int
    duration_ms: int
    event_count: int
    last_event_type: str
    close_reason: str
    closed_ms: int
