"""Events and rows of ``session_windows``.

The state is that of Spark's operators. Bound per user: a row for each session that the watermark has not
closed, so at most one for each gap between the watermark and the user's newest event, and one more. Beside
it an id per event, twice, until the watermark is the allowed lateness beyond the event.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from stateward.contract.columns import Col, Timestamp
from stateward.contract.stream_settings import MINUTE, StreamSettings


@dataclass(frozen=True, kw_only=True)
class SessionWindowSettings(StreamSettings):
    """A session ends `gap` after its last event. See docs/streams/session_windows.md."""

    reads_several_topics: ClassVar[bool] = False

    gap_ms: int = 30 * MINUTE


class UserEvent(NamedTuple):
    """One accepted event.

    Attributes:
        event_id: Identity within the user.
        event_ms: Event time, milliseconds since 1970 UTC.
        user_id: The user.
        event_type: What happened.
    """

    event_id: str
    event_ms: int
    user_id: str
    event_type: str


class SessionWindow(NamedTuple):
    """One session of one user that ended after the gap."""

    session_id: Annotated[
        str,
        Col("Identity, from the user and the first event: the same on every run", derived_from=("user_id",)),
    ]
    user_id: Annotated[str, Col("The user", personal=True)]
    started_ms: Annotated[int, Timestamp("Time of the first event")]
    ended_ms: Annotated[int, Timestamp("Time of the last event")]
    duration_ms: Annotated[int, Col("ended_at - started_at, milliseconds")]
    event_count: Annotated[int, Col("Events in the session")]
    last_event_type: Annotated[str, Col("event_type of the last event")]
    closed_ms: Annotated[int, Timestamp("Event time at which it closed: ended_at + gap")]
