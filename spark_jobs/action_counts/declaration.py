"""What ``action_counts`` reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.action_counts.logic import CountLogic
from spark_jobs.action_counts.model import (
    STATE_SCHEMA_VERSION,
    ActionEvent,
    Count,
    CountSettings,
    CurrentCount,
)
from stateward.runtime.api.record_fields import EVENT_TIME, Field
from stateward.runtime.api.stream_job import Output, StreamJob
from stateward.runtime.api.tables import Column, Table

if TYPE_CHECKING:
    from stateward.runtime.api.config import Config

USER = Field("user_id", "text")

ACTION_COUNTS = Table(
    "action_counts",
    "One user as it is now",
    (
        Column("user_id", "string", "The user", personal=True),
        Column("action_count", "long", "Actions since the last pause"),
        Column("last_action", "string", "event_type of the last event; TIMEOUT in a final row"),
        Column("last_event_id", "string", "Id of the last event, in a final row too"),
        Column("is_final", "boolean", "Whether the user was idle for so long that the count has ended"),
        Column("first_action_at", "timestamp", "When the first of these actions was read"),
        Column("last_action_at", "timestamp", "When the last one was read"),
        Column("updated_at", "timestamp", "last_action_at; in a final row last_action_at + idle"),
    ),
    current_by=(USER.name,),
    came_at="updated_at",
    nullable=("action_count", "last_action", "is_final", "first_action_at", "last_action_at", "updated_at"),
)


def _fields(config: Config) -> tuple[Field, ...]:
    return Field("event_id", "text"), USER, Field("event_type", "text"), EVENT_TIME


def _logic(config: Config) -> CountLogic:
    return CountLogic(CountSettings.of(config.logic))


def _event(record: Any, event_ms: int) -> tuple[Any, ...]:
    return record.event_id, event_ms, record.event_type


JOB = StreamJob(
    key=USER,
    fields=_fields,
    event=_event,
    event_type=ActionEvent,
    state_type=Count,
    state_version=STATE_SCHEMA_VERSION,
    logic=_logic,
    outputs=(Output(CurrentCount, ACTION_COUNTS),),
    plain_fields=("action",),
)
