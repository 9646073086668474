"""State and rows of ``user_sessions``, versioned.

The Spark schemas are strings beside the dataclasses that they describe, so that this module needs no engine.
A change of ``STATE_DDL`` is a change of ``STATE_SCHEMA_VERSION``.

Bound per key: at most one open session (about 100 bytes), ``max_held_events`` held events and as many
    remembered ids.
"""

from dataclasses import dataclass

from spark_jobs.runtime.admission import Seen

STATE_SCHEMA_VERSION = 1
STATE_NAME = "user"

STATE_DDL = (
    "session struct<session_id: string, started_ms: bigint, last_ms: bigint, event_count: bigint, "
    "last_event_type: string, gap_ms: bigint>, "
    "held array<struct<event_id: string, event_ms: bigint, event_type: string, is_last: boolean, "
    "timeout_ms: bigint>>, "
    "recent array<struct<event_id: string, event_ms: bigint>>, "
    "floor_ms bigint"
)

SESSION_DDL = (
    "session_id: string, user_id: string, started_ms: bigint, ended_ms: bigint, duration_ms: bigint, "
    "event_count: bigint, last_event_type: string, close_reason: string, closed_ms: bigint"
)

ENDED = "ENDED"
TIMEOUT = "TIMEOUT"


@dataclass(frozen=True)
class SessionEvent:
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


@dataclass(frozen=True)
class OpenSession:
    """A session that may still grow; times in milliseconds since 1970 UTC, ``gap_ms`` as it holds now."""

    session_id: str
    started_ms: int
    last_ms: int
    event_count: int
    last_event_type: str
    gap_ms: int


@dataclass(frozen=True)
class ClosedSession:
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


@dataclass(frozen=True)
class UserState:
    """Everything kept for one user."""

    session: OpenSession | None = None
    held: tuple[SessionEvent, ...] = ()
    recent: tuple[Seen, ...] = ()
    floor_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to keep."""
        return self.session is None and not self.held and not self.recent
