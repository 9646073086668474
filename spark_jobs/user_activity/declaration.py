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
from stateward.runtime.api.row_table import table_of
from stateward.runtime.api.stream_job import Output, StreamJob

if TYPE_CHECKING:
    from stateward.runtime.api.config import Config

USER = Field("user_id", "text")

ACTIVITY_SESSIONS = table_of(ActivitySession, "activity_sessions", came_at="logout_at")

ACTIVITY_ANOMALIES = table_of(ActivityAnomaly, "activity_anomalies", came_at="occurred_at")


def _fields(config: Config) -> tuple[Field, ...]:
    return (
        Field("event_id", "text"),
        USER,
        Field("activity", "text", examples=("login", "logout")),
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
