"""What ``user_sessions`` reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.user_sessions.logic import SessionLogic
from spark_jobs.user_sessions.model import (
    STATE_SCHEMA_VERSION,
    ClosedSession,
    CurrentSession,
    OpenSession,
    SessionEvent,
    SessionEvents,
    SessionSettings,
)
from stateward.runtime.api.record_fields import EVENT_TIME, Field
from stateward.runtime.api.row_table import table_of
from stateward.runtime.api.stream_job import Output, StreamJob

if TYPE_CHECKING:
    from stateward.runtime.api.config import Config

USER = Field("user_id", "text")

SESSIONS = table_of(ClosedSession, "sessions", came_at="closed_at")

SESSION_EVENTS = table_of(SessionEvents, "session_events", came_at="closed_at")

CURRENT_SESSIONS = table_of(CurrentSession, "current_sessions", current_by=(USER.name,), came_at="updated_at")


def _fields(config: Config) -> tuple[Field, ...]:
    return (
        Field("event_id", "text"),
        USER,
        Field("event_type", "text", examples=("view", "click", "buy")),
        EVENT_TIME,
        Field("is_last", "flag", required=False, examples=(None,) * 19 + (True,)),
        Field(
            "timeout_s",
            "number",
            required=False,
            minimum=0.001,
            maximum=SessionSettings.of(config.logic).max_gap_ms / 1000,
        ),
    )


def _logic(config: Config) -> SessionLogic:
    settings = SessionSettings.of(config.logic)
    return SessionLogic(
        settings.gap_ms,
        max_events=settings.max_session_events if SESSION_EVENTS.name in config.tables else 0,
        with_updates=CURRENT_SESSIONS.name in config.tables,
    )


def _event(record: Any, event_ms: int) -> tuple[Any, ...]:
    wish_s = record.timeout_s
    # Seconds with nine decimals, as the field is declared; to milliseconds, rounded down.
    timeout_ms = None if wish_s is None else int(wish_s * 1_000_000_000 + 0.5) // 1_000_000
    return record.event_id, event_ms, record.event_type, bool(record.is_last), timeout_ms


JOB = StreamJob(
    key=USER,
    fields=_fields,
    event=_event,
    event_type=SessionEvent,
    state_type=OpenSession,
    state_version=STATE_SCHEMA_VERSION,
    logic=_logic,
    outputs=(Output(ClosedSession, SESSIONS),),
    plain_fields=("event_type",),
    optional_outputs=(Output(SessionEvents, SESSION_EVENTS), Output(CurrentSession, CURRENT_SESSIONS)),
)
