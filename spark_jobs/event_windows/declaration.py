"""What ``event_windows`` reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.event_windows.logic import all_rows
from spark_jobs.event_windows.model import SlidingWindow, TumblingWindow, UserEvent
from spark_jobs.event_windows.plan import plan
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.api.record_fields import EVENT_TIME, Field
from stateward.runtime.api.stream_job import Output
from stateward.runtime.api.tables import Column, Table
from stateward.runtime.ingest.event_rows import NUMBER, to_decimal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stateward.runtime.api.config import Config

USER = Field("user_id", "text")
MAX_VALUE = 1e12
"""So that a sum has room for more events than a window can ever hold: ten to the power of sixteen."""

_WINDOW = (
    Column(
        "window_id",
        "string",
        "Identity, from the user and the window: the same on every run",
        derived_from=("user_id", "window_start", "window_end"),
    ),
    Column("user_id", "string", "The user", personal=True),
    Column("window_start", "timestamp", "Begin of the window; an event at it is inside"),
    Column("window_end", "timestamp", "End of the window; an event at it is outside"),
    Column("event_count", "long", "Events of the user in the window"),
)

EVENT_WINDOWS_SLIDING = Table(
    "event_windows_sliding",
    "One sliding window of one user in which there was an event",
    (
        *_WINDOW,
        Column("value_sum", NUMBER, "Sum of the values; null if no event had one"),
        Column("value_min", NUMBER, "Smallest value; null if no event had one"),
        Column("value_max", NUMBER, "Largest value; null if no event had one"),
    ),
    came_at="window_end",
    nullable=("window_start", "window_end", "event_count", "value_sum", "value_min", "value_max"),
)

EVENT_WINDOWS_TUMBLING = Table(
    "event_windows_tumbling",
    "One tumbling window of one user in which there was an event",
    (*_WINDOW, Column("event_types", "array<string>", "Types of the events, each once, sorted")),
    came_at="window_end",
    nullable=("window_start", "window_end", "event_count"),
)


def _fields(config: Config) -> tuple[Field, ...]:
    return (
        Field("event_id", "text"),
        USER,
        Field("event_type", "text"),
        Field("value", "number", required=False, minimum=-MAX_VALUE, maximum=MAX_VALUE),
        EVENT_TIME,
    )


def _event(record: Any, event_ms: int) -> UserEvent:
    value = to_decimal(record.value)
    return UserEvent(record.event_id, event_ms, record.user_id, record.event_type, value)


def _oracle(events: Iterable[UserEvent], config: Config) -> list[SlidingWindow | TumblingWindow]:
    return all_rows(events, size_ms=config.logic["size_ms"], slide_ms=config.logic["slide_ms"])


JOB = NativeJob(
    key=USER,
    fields=_fields,
    plan=plan,
    event=_event,
    oracle=_oracle,
    outputs=(
        Output(SlidingWindow, EVENT_WINDOWS_SLIDING),
        Output(TumblingWindow, EVENT_WINDOWS_TUMBLING),
    ),
)
