"""What ``event_windows`` reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.event_windows.logic import all_rows, ordered_rows
from spark_jobs.event_windows.model import OrderedWindow, SlidingWindow, TumblingWindow, UserEvent
from spark_jobs.event_windows.ordered import ordered
from spark_jobs.event_windows.plan import plan
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.api.record_fields import EVENT_TIME, Field
from stateward.runtime.api.row_table import table_of
from stateward.runtime.api.stream_job import Output
from stateward.runtime.ingest.event_rows import to_decimal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stateward.runtime.api.config import Config

USER = Field("user_id", "text")
MAX_VALUE = 1e12
"""So that a sum has room for more events than a window can ever hold: ten to the power of sixteen."""


EVENT_WINDOWS_SLIDING = table_of(SlidingWindow, "event_windows_sliding", came_at="window_end")

EVENT_WINDOWS_TUMBLING = table_of(TumblingWindow, "event_windows_tumbling", came_at="window_end")

EVENT_WINDOWS_ORDERED = table_of(OrderedWindow, "event_windows_ordered", came_at="window_end")


def _fields(config: Config) -> tuple[Field, ...]:
    return (
        Field("event_id", "text"),
        USER,
        Field("event_type", "text", examples=("view", "click", "buy")),
        Field(
            "value",
            "number",
            required=False,
            minimum=-MAX_VALUE,
            maximum=MAX_VALUE,
            examples=(None, 1, 2.5, 10),
        ),
        EVENT_TIME,
    )


def _event(record: Any, event_ms: int) -> UserEvent:
    value = to_decimal(record.value)
    return UserEvent(record.event_id, event_ms, record.user_id, record.event_type, value)


def _oracle(events: Iterable[UserEvent], config: Config) -> list[tuple[Any, ...]]:
    found, size_ms = list(events), config.logic["size_ms"]
    rows: list[tuple[Any, ...]] = [*all_rows(found, size_ms=size_ms, slide_ms=config.logic["slide_ms"])]
    return rows + (
        ordered_rows(found, size_ms=size_ms) if EVENT_WINDOWS_ORDERED.name in config.tables else []
    )


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
    optional_outputs=(Output(OrderedWindow, EVENT_WINDOWS_ORDERED, ordered),),
)
