"""State and rows of ``action_counts``, versioned.

A change of a state's fields is a change of ``STATE_SCHEMA_VERSION``.

Bound per key: one `Count`, with two texts of at most 1,024 characters each. Beside it, as for every stream,
``max_held_events`` remembered ids, and as many held events if the stream runs by event time.
"""

from dataclasses import dataclass
from typing import NamedTuple

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
    """One row of the table ``action_counts``: a user as it is now; times in milliseconds since 1970 UTC."""

    user_id: str
    action_count: int
    last_action: str
    last_event_id: str
    is_final: bool
    first_action_ms: int
    last_action_ms: int
    updated_ms: int
