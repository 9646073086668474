"""What ``fraud_watch`` reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.fraud_watch.amounts import to_micros
from spark_jobs.fraud_watch.machine import FraudMachine
from spark_jobs.fraud_watch.model import (
    STATE_SCHEMA_VERSION,
    FraudAlert,
    FraudSettings,
    FraudState,
    FraudSummary,
    PaymentEvent,
)
from stateward.runtime.api.record_fields import EVENT_TIME, Field
from stateward.runtime.api.row_table import table_of
from stateward.runtime.api.stream_job import Output, StreamJob

if TYPE_CHECKING:
    from stateward.runtime.api.config import Config

ACCOUNT = Field("account_id", "text")
MAX_AMOUNT = 1e12

FRAUD_ALERTS = table_of(FraudAlert, "fraud_alerts", came_at="raised_at")

FRAUD_SUMMARIES = table_of(FraudSummary, "fraud_summaries", came_at="closed_at")


def _fields(config: Config) -> tuple[Field, ...]:
    kinds = ("transaction",) * 6 + ("authenticated", "review_confirmed", "case_closed")
    return (
        Field("event_id", "text"),
        ACCOUNT,
        Field("kind", "text", examples=kinds),
        Field("amount", "number", required=False, minimum=0, maximum=MAX_AMOUNT, examples=(10, 250, 1500)),
        EVENT_TIME,
    )


def _logic(config: Config) -> FraudMachine:
    return FraudMachine(FraudSettings.of(config.logic))


def _event(record: Any, event_ms: int) -> tuple[Any, ...]:
    amount = record.amount
    return record.event_id, event_ms, record.kind, 0 if amount is None else to_micros(amount)


JOB = StreamJob(
    key=ACCOUNT,
    fields=_fields,
    event=_event,
    event_type=PaymentEvent,
    state_type=FraudState,
    state_version=STATE_SCHEMA_VERSION,
    logic=_logic,
    outputs=(Output(FraudAlert, FRAUD_ALERTS), Output(FraudSummary, FRAUD_SUMMARIES)),
    plain_fields=("name",),
)
