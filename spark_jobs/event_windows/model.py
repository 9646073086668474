"""Events and rows of ``event_windows``.

The state is that of Spark's operators. Bound per user: a row for each window that is open, which are at most
``(size + span) / slide + 1`` sliding and ``span / size + 2`` tumbling ones, ``span`` being how far the user's
newest event is ahead of the watermark; a tumbling one keeps each different type of its events once. Beside it
an id per event, three times, until the watermark is the allowed lateness beyond the event.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from stateward.contract.stream_settings import MINUTE, SettingsError, StreamSettings, duration_text


@dataclass(frozen=True, kw_only=True)
class WindowSettings(StreamSettings):
    """Windows of `size`; a sliding one starts every `slide`. See docs/streams/event_windows.md."""

    size_ms: int = 5 * MINUTE
    slide_ms: int = MINUTE

    def check(self) -> None:
        """Refuse settings that contradict each other."""
        if self.slide_ms > self.size_ms:
            raise SettingsError(
                f"logic.slide to be at most logic.size ({duration_text(self.size_ms)}),"
                " so that no event is between two windows"
            )


class UserEvent(NamedTuple):
    """One accepted event.

    Attributes:
        event_id: Identity within the user.
        event_ms: Event time, milliseconds since 1970 UTC.
        user_id: The user.
        event_type: What happened.
        value: A number with nine decimals, or None.
    """

    event_id: str
    event_ms: int
    user_id: str
    event_type: str
    value: Decimal | None


class SlidingWindow(NamedTuple):
    """One row of the table ``event_windows_sliding``; times in milliseconds since 1970 UTC."""

    window_id: str
    user_id: str
    start_ms: int
    end_ms: int
    event_count: int
    value_sum: Decimal | None
    value_min: Decimal | None
    value_max: Decimal | None


class TumblingWindow(NamedTuple):
    """One row of the table ``event_windows_tumbling``; times in milliseconds since 1970 UTC."""

    window_id: str
    user_id: str
    start_ms: int
    end_ms: int
    event_count: int
    event_types: tuple[str, ...]
