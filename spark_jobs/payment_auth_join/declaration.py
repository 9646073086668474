"""What ``payment_auth_join`` reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.payment_auth_join.logic import all_rows
from spark_jobs.payment_auth_join.model import PaymentAuthentication, PaymentEvent
from spark_jobs.payment_auth_join.plan import plan
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.api.record_fields import EVENT_TIME, Field
from stateward.runtime.api.row_table import table_of
from stateward.runtime.api.stream_job import Output
from stateward.runtime.ingest.event_rows import to_decimal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stateward.runtime.api.config import Config

ACCOUNT = Field("account_id", "text")
MAX_AMOUNT = 1e12

PAYMENT_AUTHENTICATIONS = table_of(PaymentAuthentication, "payment_authentications", came_at="transaction_at")


def _fields(config: Config) -> tuple[Field, ...]:
    return (
        Field("event_id", "text"),
        ACCOUNT,
        Field("kind", "text", examples=("transaction", "authenticated")),
        Field("amount", "number", required=False, minimum=0, maximum=MAX_AMOUNT, examples=(10, 250, 1500)),
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
