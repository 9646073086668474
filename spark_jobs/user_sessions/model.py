"""State and rows of ``user_sessions``, versioned.

A change of a state's fields is a change of ``STATE_SCHEMA_VERSION``.

Bound per key: at most one open session (about 100 bytes), ``max_held_events`` held events and as many
    remembered ids.
"""

from dataclasses import dataclass
from typing import NamedTuple

from stateward.contract.stream_settings import HOUR, MINUTE, SettingsError, StreamSettings, duration_text

STATE_SCHEMA_VERSION = 2

ENDED = "ENDED"
TIMEOUT = "TIMEOUT"


@dataclass(frozen=True, kw_only=True)
class SessionSettings(StreamSettings):
    """Sessions end after `gap`, or what an event asks for, up to `max_gap`."""

    gap_ms: int = 30 * MINUTE
    max_gap_ms: int = 24 * HOUR
    max_held_events: int = 10_000

    def check(self) -> None:
        """Refuse settings that contradict each other."""
        if self.gap_ms > self.max_gap_ms:
            raise SettingsError(f"logic.gap to be at most logic.max_gap ({duration_text(self.max_gap_ms)})")


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
