"""What ``payment_auth_join`` reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.payment_auth_join.logic import all_rows
from spark_jobs.payment_auth_join.model import PaymentAuthentication, PaymentEvent
from spark_jobs.payment_auth_join.plan import plan
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.api.record_fields import EVENT_TIME, Field
from stateward.runtime.api.stream_job import Output
from stateward.runtime.api.tables import Column, Table
from stateward.runtime.ingest.event_rows import NUMBER, to_decimal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stateward.runtime.api.config import Config

ACCOUNT = Field("account_id", "text")
MAX_AMOUNT = 1e12

PAYMENT_AUTHENTICATIONS = Table(
    "payment_authentications",
    "One transaction, with the first authentication around it",
    (
        Column(
            "payment_id",
            "string",
            "Identity, from the account and the transaction: the same on every run",
            derived_from=("account_id", "transaction_id"),
        ),
        Column("account_id", "string", "The account", personal=True),
        Column("transaction_id", "string", "Id of the transaction's event"),
        Column("transaction_at", "timestamp", "Time of the transaction"),
        Column("amount", NUMBER, "Its amount; null if it named none"),
        Column("authentication_id", "string", "Id of the authentication's event; null if there was none"),
        Column("authenticated_at", "timestamp", "Time of the authentication; null if there was none"),
    ),
    came_at="transaction_at",
    nullable=("amount", "authentication_id", "authenticated_at"),
)


def _fields(config: Config) -> tuple[Field, ...]:
    return (
        Field("event_id", "text"),
        ACCOUNT,
        Field("kind", "text"),
        Field("amount", "number", required=False, minimum=0, maximum=MAX_AMOUNT),
        EVENT_TIME,
    )


def _event(record: Any, event_ms: int) -> PaymentEvent:
    amount = to_decimal(record.amount)
    return PaymentEvent(record.event_id, event_ms, record.account_id, record.kind, amount)


def _oracle(events: Iterable[PaymentEvent], config: Config) -> list[PaymentAuthentication]:
    return all_rows(events, before_ms=config.logic["before_ms"], after_ms=config.logic["after_ms"])


JOB = NativeJob(
    key=ACCOUNT,
    fields=_fields,
    plan=plan,
    event=_event,
    oracle=_oracle,
    outputs=(Output(PaymentAuthentication, PAYMENT_AUTHENTICATIONS),),
)
