"""State and rows of ``user_activity``, versioned.

A change of a state's fields is a change of ``STATE_SCHEMA_VERSION``.

Bound per key: one `ActivityState` (about 150 bytes), with at most one open login, ``max_held_events`` held
events and as many remembered ids.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from stateward.contract.columns import Col, Timestamp
from stateward.contract.stream_settings import DAY, HOUR, SettingsError, StreamSettings, duration_text

STATE_SCHEMA_VERSION = 1

# Activities.
LOGIN = "login"
LOGOUT = "logout"

# Why a session is closed.
CLOSED_LOGOUT = "LOGOUT"
CLOSED_TIMEOUT = "TIMEOUT"
CLOSED_RELOGIN = "RELOGIN"

# Why an event is an anomaly.
LOGOUT_WITHOUT_LOGIN = "LOGOUT_WITHOUT_LOGIN"
LOGOUT_AFTER_TIMEOUT = "LOGOUT_AFTER_TIMEOUT"
UNKNOWN_ACTIVITY = "UNKNOWN_ACTIVITY"


@dataclass(frozen=True, kw_only=True)
class ActivitySettings(StreamSettings):
    """When a session and a user's count end; see docs/streams/user_activity.md.

    Attributes:
        session_timeout_ms: A session without a logout ends this long after its login.
        counter_idle_ms: A user's count is forgotten after this long without an event.
        max_held_events: Events of a user that wait for the watermark.
    """

    session_timeout_ms: int = HOUR
    counter_idle_ms: int = 30 * DAY
    max_held_events: int = 10_000

    def check(self) -> None:
        """Refuse settings that contradict each other."""
        if self.counter_idle_ms <= self.session_timeout_ms:
            raise SettingsError(
                "logic.counter_idle to be longer than logic.session_timeout"
                f" ({duration_text(self.session_timeout_ms)}), so that a session is counted"
                " before its user is forgotten"
            )


class ActivityEvent(NamedTuple):
    """One accepted event of a user.

    Attributes:
        event_id: Identity within the user.
        event_ms: Event time, milliseconds since 1970 UTC.
        activity: ``login`` or ``logout``; any other is an anomaly.
    """

    event_id: str
    event_ms: int
    activity: str


class ActivityState(NamedTuple):
    """What is known of a user; times in milliseconds since 1970 UTC.

    Kept only while a login is open or a session has been counted.

    Attributes:
        session_count: Sessions completed.
        last_ms: Time of the newest event.
        login_ms: Time of the open login, or None.
        session_id: Identity of the session it opened; empty when none is open.
        timed_out: Whether the newest session has timed out and its logout has not come.
    """

    session_count: int
    last_ms: int
    login_ms: int | None = None
    session_id: str = ""
    timed_out: bool = False


class ActivitySession(NamedTuple):
    """One completed session of one user, from login to logout."""

    session_id: Annotated[
        str, Col("Identity, from the user and the login: the same on every run", derived_from=("user_id",))
    ]
    user_id: Annotated[str, Col("The user", personal=True)]
    session_count: Annotated[int, Col("Sessions the user has completed, this one included", nullable=True)]
    login_ms: Annotated[int, Timestamp("Time of the login")]
    logout_ms: Annotated[int, Timestamp("Time of the logout or the next login, or login_at + timeout")]
    duration_ms: Annotated[int, Col("logout_at - login_at, milliseconds", nullable=True)]
    close_reason: Annotated[
        str, Col("LOGOUT, TIMEOUT, or RELOGIN: the user logged in once more", nullable=True)
    ]


class ActivityAnomaly(NamedTuple):
    """One event of one user that belongs to no session."""

    anomaly_id: Annotated[
        str, Col("Identity, from the user and the event: the same on every run", derived_from=("user_id",))
    ]
    user_id: Annotated[str, Col("The user", personal=True)]
    event_id: Annotated[str, Col("Id of the event")]
    occurred_ms: Annotated[int, Timestamp("Time of the event")]
    activity: Annotated[str, Col("activity of the event, as it was sent")]
    reason: Annotated[str, Col("LOGOUT_WITHOUT_LOGIN, LOGOUT_AFTER_TIMEOUT or UNKNOWN_ACTIVITY")]
