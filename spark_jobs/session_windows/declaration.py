"""What ``session_windows`` reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.session_windows.logic import all_rows
from spark_jobs.session_windows.model import SessionWindow, UserEvent
from spark_jobs.session_windows.plan import plan
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.api.record_fields import EVENT_TIME, Field
from stateward.runtime.api.row_table import table_of
from stateward.runtime.api.stream_job import Output

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stateward.runtime.api.config import Config

USER = Field("user_id", "text")

SESSION_WINDOWS = table_of(SessionWindow, "session_windows", came_at="closed_at")


def _fields(config: Config) -> tuple[Field, ...]:
    return (
        Field("event_id", "text"),
        USER,
        Field("event_type", "text", examples=("view", "click", "buy")),
        EVENT_TIME,
    )


def _event(record: Any, event_ms: int) -> UserEvent:
    return UserEvent(record.event_id, event_ms, record.user_id, record.event_type)


def _oracle(events: Iterable[UserEvent], config: Config) -> list[SessionWindow]:
    return all_rows(events, gap_ms=config.logic["gap_ms"])


JOB = NativeJob(
    key=USER,
    fields=_fields,
    plan=plan,
    event=_event,
    oracle=_oracle,
    outputs=(Output(SessionWindow, SESSION_WINDOWS),),
    chained=True,
)
