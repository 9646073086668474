"""What ``device_lifecycle`` reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.device_lifecycle.machine import DeviceMachine
from spark_jobs.device_lifecycle.model import (
    STATE_SCHEMA_VERSION,
    DeviceAlert,
    DeviceReading,
    DeviceSettings,
    DeviceState,
    DeviceStatus,
)
from stateward.runtime.api.record_fields import EVENT_TIME, Field
from stateward.runtime.api.row_table import table_of
from stateward.runtime.api.stream_job import Output, StreamJob

if TYPE_CHECKING:
    from stateward.runtime.api.config import Config

DEVICE = Field("device_id", "text")

DEVICE_ALERTS = table_of(DeviceAlert, "device_alerts", came_at="raised_at")

DEVICE_STATUS = table_of(DeviceStatus, "device_status", current_by=(DEVICE.name,), came_at="updated_at")


def _fields(config: Config) -> tuple[Field, ...]:
    return (
        Field("event_id", "text"),
        DEVICE,
        Field("status", "text", examples=("running", "running", "idle", "error", "retired")),
        Field("error_code", "text", required=False, examples=(None, "E1", "E2")),
        EVENT_TIME,
    )


def _logic(config: Config) -> DeviceMachine:
    return DeviceMachine(DeviceSettings.of(config.logic))


def _event(record: Any, event_ms: int) -> tuple[Any, ...]:
    return record.event_id, event_ms, record.status, record.error_code


JOB = StreamJob(
    key=DEVICE,
    fields=_fields,
    event=_event,
    event_type=DeviceReading,
    state_type=DeviceState,
    state_version=STATE_SCHEMA_VERSION,
    logic=_logic,
    outputs=(Output(DeviceAlert, DEVICE_ALERTS), Output(DeviceStatus, DEVICE_STATUS)),
    plain_fields=("status", "said", "error_code"),
)
