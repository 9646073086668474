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
from stateward.runtime.api.row_table import table_of
from stateward.runtime.api.stream_job import Output, StreamJob

if TYPE_CHECKING:
    from stateward.runtime.api.config import Config

USER = Field("user_id", "text")

ACTION_COUNTS = table_of(CurrentCount, "action_counts", current_by=(USER.name,), came_at="updated_at")


def _fields(config: Config) -> tuple[Field, ...]:
    return (
        Field("event_id", "text"),
        USER,
        Field("event_type", "text", examples=("view", "click", "buy")),
        EVENT_TIME,
    )


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
