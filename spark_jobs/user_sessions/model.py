"""State and rows of ``user_sessions``, versioned.

A change of a state's fields is a change of ``STATE_SCHEMA_VERSION``.

Bound per key: at most one open session (about 100 bytes), ``max_held_events`` held events and as many
    remembered ids.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from stateward.contract.columns import Col, Timestamp
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
    """One closed session of one user."""

    session_id: Annotated[
        str,
        Col("Identity, from the user and the first event: the same on every run", derived_from=("user_id",)),
    ]
    user_id: Annotated[str, Col("The user", personal=True)]
    started_ms: Annotated[int, Timestamp("Time of the first event")]
    ended_ms: Annotated[int, Timestamp("Time of the last event")]
    duration_ms: Annotated[int, Col("ended_at - started_at, milliseconds")]
    event_count: Annotated[int, Col("Events in the session", nullable=True)]
    last_event_type: Annotated[str, Col("event_type of the last event", nullable=True)]
    close_reason: Annotated[str, Col("ENDED by an is_last event, or TIMEOUT after the gap")]
    closed_ms: Annotated[int, Timestamp("Event time at which it closed: ended_at, or ended_at + gap")]
