"""Events and rows of ``event_windows``.

The state is that of Spark's operators. Bound per user: a row for each window that is open, which are at most
``(size + span) / slide + 1`` sliding and ``span / size + 2`` tumbling ones, ``span`` being how far the user's
newest event is ahead of the watermark; a tumbling one keeps each different type of its events once. Beside it
an id per event, three times, until the watermark is the allowed lateness beyond the event.

The optional table ``event_windows_ordered`` keeps time, id and type of each event of an open tumbling window,
and the ids a fourth time.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, ClassVar, NamedTuple

from stateward.contract.columns import Col, Timestamp
from stateward.contract.stream_settings import MINUTE, SettingsError, StreamSettings, duration_text


@dataclass(frozen=True, kw_only=True)
class WindowSettings(StreamSettings):
    """Windows of `size`; a sliding one starts every `slide`. See docs/streams/event_windows.md."""

    reads_several_topics: ClassVar[bool] = False

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


# Columns of both tables.
WindowId = Annotated[
    str,
    Col(
        "Identity, from the user and the window: the same on every run",
        derived_from=("user_id", "window_start", "window_end"),
    ),
]
UserId = Annotated[str, Col("The user", personal=True)]
WindowStart = Annotated[
    int, Timestamp("Begin of the window; an event at it is inside", name="window_start", nullable=True)
]
WindowEnd = Annotated[
    int, Timestamp("End of the window; an event at it is outside", name="window_end", nullable=True)
]
EventCount = Annotated[int, Col("Events of the user in the window", nullable=True)]


class SlidingWindow(NamedTuple):
    """One sliding window of one user in which there was an event."""

    window_id: WindowId
    user_id: UserId
    start_ms: WindowStart
    end_ms: WindowEnd
    event_count: EventCount
    value_sum: Annotated[Decimal | None, Col("Sum of the values; null if no event had one")]
    value_min: Annotated[Decimal | None, Col("Smallest value; null if no event had one")]
    value_max: Annotated[Decimal | None, Col("Largest value; null if no event had one")]


class TumblingWindow(NamedTuple):
    """One tumbling window of one user in which there was an event."""

    window_id: WindowId
    user_id: UserId
    start_ms: WindowStart
    end_ms: WindowEnd
    event_count: EventCount
    event_types: Annotated[tuple[str, ...], Col("Types of the events, each once, sorted")]


class OrderedWindow(NamedTuple):
    """The events of one user in one tumbling window, in order."""

    window_id: WindowId
    user_id: UserId
    start_ms: WindowStart
    end_ms: WindowEnd
    event_count: EventCount
    event_types: Annotated[tuple[str, ...], Col("Types of the events by event time, then id; with repeats")]
    event_ids: Annotated[tuple[str, ...], Col("Ids of the events, in the same order")]
