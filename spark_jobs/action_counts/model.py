"""State and rows of ``action_counts``, versioned.

A change of a state's fields is a change of ``STATE_SCHEMA_VERSION``.

Bound per key: one `Count`, with two texts of at most 1,024 characters each. Beside it, as for every stream,
``max_held_events`` remembered ids, and as many held events if the stream runs by event time.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from stateward.contract.columns import Col, Timestamp
from stateward.contract.stream_settings import MINUTE, StreamSettings

STATE_SCHEMA_VERSION = 1

TIMEOUT = "TIMEOUT"
"""What a final row says in place of the last action."""


@dataclass(frozen=True, kw_only=True)
class CountSettings(StreamSettings):
    """A count ends `idle` after the user's last action."""

    idle_ms: int = 5 * MINUTE
    max_held_events: int = 10_000


class ActionEvent(NamedTuple):
    """One accepted event of a user.

    Attributes:
        event_id: Identity within the user.
        event_ms: When it was read, by the stream's clock; milliseconds since 1970 UTC.
        action: What the user did: its ``event_type``.
    """

    event_id: str
    event_ms: int
    action: str


class Count(NamedTuple):
    """What a user has done since the last pause; times in milliseconds since 1970 UTC.

    Attributes:
        first_ms: Time of the first action.
        last_ms: The newest time of an action.
        action_count: Actions.
        last_action: The last one.
        last_event_id: Its event.
    """

    first_ms: int
    last_ms: int
    action_count: int
    last_action: str
    last_event_id: str


class CurrentCount(NamedTuple):
    """One user as it is now."""

    user_id: Annotated[str, Col("The user", personal=True)]
    action_count: Annotated[int, Col("Actions since the last pause", nullable=True)]
    last_action: Annotated[str, Col("event_type of the last event; TIMEOUT in a final row", nullable=True)]
    last_event_id: Annotated[str, Col("Id of the last event, in a final row too")]
    is_final: Annotated[
        bool, Col("Whether the user was idle for so long that the count has ended", nullable=True)
    ]
    first_action_ms: Annotated[int, Timestamp("When the first of these actions was read", nullable=True)]
    last_action_ms: Annotated[int, Timestamp("When the last one was read", nullable=True)]
    updated_ms: Annotated[
        int, Timestamp("last_action_at; in a final row last_action_at + idle", nullable=True)
    ]
