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
from stateward.runtime.api.stream_job import Output, StreamJob
from stateward.runtime.api.tables import Column, Table

if TYPE_CHECKING:
    from stateward.runtime.api.config import Config

DEVICE = Field("device_id", "text")

DEVICE_ALERTS = Table(
    "device_alerts",
    "One device that went offline, or that came back",
    (
        Column(
            "alert_id",
            "string",
            "Identity, from the device and the reading: the same on every run",
            derived_from=("device_id",),
        ),
        Column("device_id", "string", "The device"),
        Column("kind", "string", "OFFLINE or BACK_ONLINE"),
        Column("raised_at", "timestamp", "Event time: when the silence was too long, or of the next reading"),
        Column("last_heartbeat_at", "timestamp", "Time of the last reading before the silence"),
        Column("silence_ms", "long", "raised_at - last_heartbeat_at, milliseconds; null for OFFLINE"),
        Column("previous_mode", "string", "Mode before the silence: running, idle, error or unknown"),
        Column("evidence", "array<string>", "Ids of the last reading, and of the one that ended the silence"),
    ),
    came_at="raised_at",
    nullable=("kind", "raised_at", "last_heartbeat_at", "silence_ms", "previous_mode", "evidence"),
)

DEVICE_STATUS = Table(
    "device_status",
    "One device as it is now",
    (
        Column("device_id", "string", "The device"),
        Column("mode", "string", "running, idle, error, unknown, offline; at the end retired or forgotten"),
        Column("first_seen_at", "timestamp", "Time of the first reading of this life of the device"),
        Column("last_heartbeat_at", "timestamp", "Time of the newest reading"),
        Column("runtime_ms", "long", "Time spent running since first_seen_at, milliseconds"),
        Column("reading_count", "long", "Readings since first_seen_at"),
        Column("error_codes", "array<string>", "The newest 20 error codes since first_seen_at, newest last"),
        Column("error_count", "long", "Readings with an error code since first_seen_at"),
        Column("changed_at", "timestamp", "Event time at which it came into this mode"),
        Column("updated_at", "timestamp", "Event time of the newest reading, or at which a timeout was due"),
        Column("updated_by", "string", "Id of that reading; empty for a timeout"),
    ),
    current_by=(DEVICE.name,),
    came_at="updated_at",
    nullable=("runtime_ms", "reading_count", "error_codes", "error_count", "updated_by"),
)


def _fields(config: Config) -> tuple[Field, ...]:
    return (
        Field("event_id", "text"),
        DEVICE,
        Field("status", "text"),
        Field("error_code", "text", required=False),
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
