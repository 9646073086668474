"""What ``user_sessions`` reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.runtime.rows import output_ddl
from spark_jobs.runtime.stream_job import StreamJob
from spark_jobs.runtime.tables import Column, Table
from spark_jobs.runtime.validation import EVENT_TIME, Field
from spark_jobs.user_sessions.model import SESSION_DDL
from spark_jobs.user_sessions.processor import KIND_SESSION, UserSessionsProcessor

if TYPE_CHECKING:
    from spark_jobs.runtime.config import Config

USER = Field("user_id", "text")

SESSIONS = Table(
    "sessions",
    "One closed session of one user",
    (
        Column("session_id", "string", "Identity, from the user and the first event: the same on every run"),
        Column("user_id", "string", "The user"),
        Column("started_at", "timestamp", "Time of the first event"),
        Column("ended_at", "timestamp", "Time of the last event"),
        Column("duration_ms", "long", "ended_at - started_at, milliseconds"),
        Column("event_count", "long", "Events in the session"),
        Column("last_event_type", "string", "event_type of the last event"),
        Column("close_reason", "string", "ENDED by an is_last event, or TIMEOUT after the gap"),
        Column("closed_at", "timestamp", "Event time at which it closed: ended_at, or ended_at + gap"),
    ),
)


def _fields(config: Config) -> tuple[Field, ...]:
    return (
        Field("event_id", "text"),
        USER,
        Field("event_type", "text"),
        EVENT_TIME,
        Field("is_last", "flag", required=False),
        Field(
            "timeout_s",
            "number",
            required=False,
            minimum=0.001,
            maximum=config.logic["max_gap_ms"] / 1000,
        ),
    )


def _processor(config: Config) -> UserSessionsProcessor:
    return UserSessionsProcessor(
        config.logic["gap_ms"], config.allowed_lateness_ms, config.logic["max_held_events"]
    )


JOB = StreamJob(
    key=USER,
    fields=_fields,
    processor=_processor,
    output_ddl=output_ddl(KIND_SESSION, SESSION_DDL),
    kind=KIND_SESSION,
    table=SESSIONS,
    select=(
        "session_id",
        "user_id",
        "timestamp_millis(started_ms) AS started_at",
        "timestamp_millis(ended_ms) AS ended_at",
        "duration_ms",
        "event_count",
        "last_event_type",
        "close_reason",
        "timestamp_millis(closed_ms) AS closed_at",
    ),
)
