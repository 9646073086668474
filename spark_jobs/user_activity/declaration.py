"""What ``user_activity`` reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.user_activity.logic import ActivityLogic
from spark_jobs.user_activity.model import (
    STATE_SCHEMA_VERSION,
    ActivityAnomaly,
    ActivityEvent,
    ActivitySession,
    ActivitySettings,
    ActivityState,
)
from stateward.runtime.api.record_fields import EVENT_TIME, Field
from stateward.runtime.api.stream_job import Output, StreamJob
from stateward.runtime.api.tables import Column, Table

if TYPE_CHECKING:
    from stateward.runtime.api.config import Config

USER = Field("user_id", "text")

ACTIVITY_SESSIONS = Table(
    "activity_sessions",
    "One completed session of one user, from login to logout",
    (
        Column(
            "session_id",
            "string",
            "Identity, from the user and the login: the same on every run",
            derived_from=("user_id",),
        ),
        Column("user_id", "string", "The user", personal=True),
        Column("session_count", "long", "Sessions the user has completed, this one included"),
        Column("login_at", "timestamp", "Time of the login"),
        Column("logout_at", "timestamp", "Time of the logout or the next login, or login_at + timeout"),
        Column("duration_ms", "long", "logout_at - login_at, milliseconds"),
        Column("close_reason", "string", "LOGOUT, TIMEOUT, or RELOGIN: the user logged in once more"),
    ),
    came_at="logout_at",
    nullable=("session_count", "duration_ms", "close_reason"),
)

ACTIVITY_ANOMALIES = Table(
    "activity_anomalies",
    "One event of one user that belongs to no session",
    (
        Column(
            "anomaly_id",
            "string",
            "Identity, from the user and the event: the same on every run",
            derived_from=("user_id",),
        ),
        Column("user_id", "string", "The user", personal=True),
        Column("event_id", "string", "Id of the event"),
        Column("occurred_at", "timestamp", "Time of the event"),
        Column("activity", "string", "activity of the event, as it was sent"),
        Column("reason", "string", "LOGOUT_WITHOUT_LOGIN, LOGOUT_AFTER_TIMEOUT or UNKNOWN_ACTIVITY"),
    ),
    came_at="occurred_at",
)


def _fields(config: Config) -> tuple[Field, ...]:
    return (
        Field("event_id", "text"),
        USER,
        Field("activity", "text"),
        EVENT_TIME,
    )


def _logic(config: Config) -> ActivityLogic:
    return ActivityLogic(ActivitySettings.of(config.logic))


def _event(record: Any, event_ms: int) -> tuple[Any, ...]:
    return record.event_id, event_ms, record.activity


JOB = StreamJob(
    key=USER,
    fields=_fields,
    event=_event,
    event_type=ActivityEvent,
    state_type=ActivityState,
    state_version=STATE_SCHEMA_VERSION,
    logic=_logic,
    outputs=(Output(ActivitySession, ACTIVITY_SESSIONS), Output(ActivityAnomaly, ACTIVITY_ANOMALIES)),
)
