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
from stateward.runtime.api.stream_job import Output, StreamJob
from stateward.runtime.api.tables import Column, Table

if TYPE_CHECKING:
    from stateward.runtime.api.config import Config

ACCOUNT = Field("account_id", "text")
MAX_AMOUNT = 1e12

FRAUD_ALERTS = Table(
    "fraud_alerts",
    "One alert about one account",
    (
        Column(
            "alert_id",
            "string",
            "Identity, from the account and the event: the same on every run",
            derived_from=("account_id",),
        ),
        Column("account_id", "string", "The account", personal=True),
        Column("kind", "string", "SUSPICIOUS or FLAGGED: the state the account came into"),
        Column("raised_at", "timestamp", "Event time of the event that raised it"),
        Column("previous_state", "string", "State the account was in before"),
        Column("reason", "string", "VELOCITY_COUNT, VELOCITY_AMOUNT or REVIEW_CONFIRMED"),
        Column("transaction_count", "long", "Transactions in the velocity window"),
        Column("amount", "double", "Their total"),
        Column("evidence", "array<string>", "Ids of its events, at most the newest 20"),
    ),
    came_at="raised_at",
    nullable=("previous_state", "transaction_count"),
)

FRAUD_SUMMARIES = Table(
    "fraud_summaries",
    "One account that is watched no longer",
    (
        Column(
            "summary_id",
            "string",
            "Identity, from the account and its first transaction",
            derived_from=("account_id",),
        ),
        Column("account_id", "string", "The account", personal=True),
        Column("state", "string", "State it was in at the end: watching, suspicious or flagged"),
        Column("opened_at", "timestamp", "Time of the first transaction"),
        Column("closed_at", "timestamp", "Event time of case_closed, or at which the timeout was due"),
        Column("transaction_count", "long", "Transactions since opened_at"),
        Column("amount", "double", "Their total"),
        Column("alert_count", "long", "Alerts since opened_at"),
        Column("close_reason", "string", "IDLE, CASE_CLOSED, EXPIRED, or SAFETY for what should not happen"),
    ),
    came_at="closed_at",
    nullable=("state", "transaction_count", "amount", "alert_count"),
)


def _fields(config: Config) -> tuple[Field, ...]:
    return (
        Field("event_id", "text"),
        ACCOUNT,
        Field("kind", "text"),
        Field("amount", "number", required=False, minimum=0, maximum=MAX_AMOUNT),
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
