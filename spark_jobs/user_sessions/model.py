"""State and rows of ``user_sessions``, versioned.

A change of a state's fields is a change of ``STATE_SCHEMA_VERSION``.

Bound per key: at most one open session (about 100 bytes, with the optional table ``session_events`` also
    ``max_session_events`` events), ``max_held_events`` held events and as many remembered ids.
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

STATE_SCHEMA_VERSION = 3

ENDED = "ENDED"
TIMEOUT = "TIMEOUT"


@dataclass(frozen=True, kw_only=True)
class SessionSettings(StreamSettings):
    """Sessions end after `gap`, or what an event asks for, up to `max_gap`.

    `max_session_events` is how many events of a session the optional table `session_events` has.
    """

    gap_ms: int = 30 * MINUTE
    max_gap_ms: int = 24 * HOUR
    max_held_events: int = 10_000
    max_session_events: Annotated[int, Between(1, 10_000)] = 100

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


class KeptEvent(NamedTuple):
    """An event of an open session, as the table ``session_events`` has it."""

    event_ms: int
    event_id: str
    event_type: str


class OpenSession(NamedTuple):
    """A session that may still grow; times in milliseconds since 1970 UTC, ``gap_ms`` as it holds now.

    ``first_events`` are kept for the table ``session_events``, and empty without it.
    """

    session_id: str
    started_ms: int
    last_ms: int
    event_count: int
    last_event_type: str
    gap_ms: int
    first_events: tuple[KeptEvent, ...] = ()


# Columns of several tables.
SessionId = Annotated[
    str,
    Col("Identity, from the user and the first event: the same on every run", derived_from=("user_id",)),
]
UserId = Annotated[str, Col("The user", personal=True)]


class ClosedSession(NamedTuple):
    """One closed session of one user."""

    session_id: SessionId
    user_id: UserId
    started_ms: Annotated[int, Timestamp("Time of the first event")]
    ended_ms: Annotated[int, Timestamp("Time of the last event")]
    duration_ms: Annotated[int, Col("ended_at - started_at, milliseconds")]
    event_count: Annotated[int, Col("Events in the session", nullable=True)]
    last_event_type: Annotated[str, Col("event_type of the last event", nullable=True)]
    close_reason: Annotated[str, Col("ENDED by an is_last event, or TIMEOUT after the gap")]
    closed_ms: Annotated[int, Timestamp("Event time at which it closed: ended_at, or ended_at + gap")]


class SessionEvents(NamedTuple):
    """The events of one closed session, in order."""

    session_id: SessionId
    user_id: UserId
    started_ms: Annotated[int, Timestamp("Time of the first event")]
    event_count: Annotated[int, Col("Events in the session", nullable=True)]
    left_out: Annotated[
        int, Col("Events that are not in the lists: those after the first max_session_events")
    ]
    event_ids: Annotated[tuple[str, ...], Col("Ids of the first events, by event time, then id")]
    event_types: Annotated[tuple[str, ...], Col("Their types, in the same order")]
    offsets_ms: Annotated[
        tuple[int, ...], Col("Their times after started_at, milliseconds, in the same order")
    ]
    closed_ms: Annotated[int, Timestamp("Event time at which the session closed")]


class CurrentSession(NamedTuple):
    """The newest session of one user as it is now, open or closed."""

    user_id: UserId
    session_id: SessionId
    is_open: Annotated[bool, Col("Whether the session may still grow", nullable=True)]
    started_ms: Annotated[int, Timestamp("Time of the first event")]
    last_event_ms: Annotated[int, Timestamp("Time of the last event")]
    duration_ms: Annotated[int, Col("last_event_at - started_at, milliseconds")]
    event_count: Annotated[int, Col("Events in the session", nullable=True)]
    last_event_type: Annotated[str, Col("event_type of the last event", nullable=True)]
    close_reason: Annotated[str | None, Col("ENDED or TIMEOUT; null while it is open")]
    updated_ms: Annotated[int, Timestamp("last_event_at; of a closed session the time at which it closed")]
