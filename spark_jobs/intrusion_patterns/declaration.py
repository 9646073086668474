"""What ``intrusion_patterns`` reads and writes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_jobs.intrusion_patterns.logic import IntrusionLogic
from spark_jobs.intrusion_patterns.model import (
    STATE_SCHEMA_VERSION,
    IntrusionAlert,
    IntrusionState,
    SecurityEvent,
)
from spark_jobs.intrusion_patterns.patterns import PATTERNS
from stateward.runtime.api.record_fields import EVENT_TIME, Field
from stateward.runtime.api.row_table import table_of
from stateward.runtime.api.stream_job import Output, StreamJob

if TYPE_CHECKING:
    from stateward.runtime.api.config import Config

SOURCE = Field("source_ip", "text")

INTRUSION_ALERTS = table_of(IntrusionAlert, "intrusion_alerts", came_at="completed_at")


def _fields(config: Config) -> tuple[Field, ...]:
    kinds = ("recon_scan", "auth_failure", "privilege_escalation", "port_open")
    return Field("event_id", "text"), SOURCE, Field("kind", "text", examples=kinds), EVENT_TIME


def _logic(config: Config) -> IntrusionLogic:
    horizon_ms = config.logic.get("horizon_ms")
    if horizon_ms is None:
        return IntrusionLogic(PATTERNS)
    return IntrusionLogic(tuple(replace(pattern, horizon_ms=horizon_ms) for pattern in PATTERNS))


def _event(record: Any, event_ms: int) -> tuple[Any, ...]:
    return record.event_id, event_ms, record.kind


JOB = StreamJob(
    key=SOURCE,
    fields=_fields,
    event=_event,
    event_type=SecurityEvent,
    state_type=IntrusionState,
    state_version=STATE_SCHEMA_VERSION,
    logic=_logic,
    outputs=(Output(IntrusionAlert, INTRUSION_ALERTS),),
    plain_fields=("kind",),
)
