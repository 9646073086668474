"""A stream of two topics on Spark's own operators: payments with the logins of their accounts around them.

``matches`` is the inner join, a row for each login around a payment; ``matched_payments`` the left outer one,
a row with nulls for a payment without any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from stateward.contract.stream_settings import SECOND
from stateward.runtime.api.native_job import NativeJob, TopicInput, every_field
from stateward.runtime.api.record_fields import EVENT_TIME, Field
from stateward.runtime.api.stream_job import Output
from stateward.runtime.api.tables import Column, Table
from tests.support.spark.launches import Launch, Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AROUND_MS = 2 * SECOND

_COLUMNS = (
    Column("account_id", "string", "The account"),
    Column("payment_id", "string", "Id of the payment's event"),
    Column("paid_at", "timestamp", "Time of the payment"),
    Column("login_id", "string", "Id of the login's event"),
    Column("device", "string", "Where the login was"),
)
MATCHES = Table("matches", "A login around a payment", _COLUMNS, came_at="paid_at")
PAYMENTS = Table(
    "matched_payments",
    "A payment with a login around it, or without any",
    _COLUMNS,
    came_at="paid_at",
    nullable=("login_id", "device"),
)


class Match(NamedTuple):
    """One row of `MATCHES`."""

    account_id: str
    payment_id: str
    paid_ms: int
    login_id: str
    device: str


class MatchedPayment(NamedTuple):
    """One row of `PAYMENTS`."""

    account_id: str
    payment_id: str
    paid_ms: int
    login_id: str | None
    device: str | None


class Event(NamedTuple):
    """An event of either topic."""

    event_id: str
    event_ms: int
    topic: str
    account_id: str
    device: str | None


_ID, ACCOUNT = Field("event_id", "text"), Field("account_id", "text")
INPUTS = (
    TopicInput("payments", lambda config: (_ID, ACCOUNT, Field("cents", "number"), EVENT_TIME)),
    TopicInput("logins", lambda config: (_ID, ACCOUNT, Field("device", "text"), EVENT_TIME)),
)


def plan(events: Mapping[str, DataFrame], config: Any) -> dict[str, DataFrame]:
    return {"matches": _joined(events, "inner"), "matched_payments": _joined(events, "left_outer")}


def _joined(events: Mapping[str, DataFrame], how: str) -> DataFrame:
    from pyspark.sql import functions as F

    from stateward.runtime.query.native_query import event_instant

    around = F.expr(f"INTERVAL {AROUND_MS} MILLISECONDS")
    logins = events["logins"].select(
        F.col("account_id").alias("owner_id"),
        F.col("event_id").alias("login_id"),
        "device",
        F.col("event_time").alias("login_time"),
    )
    return (
        events["payments"]
        .join(
            logins,
            (F.col("account_id") == F.col("owner_id"))
            & (F.col("login_time") >= F.col("event_time") - around)
            & (F.col("login_time") <= F.col("event_time") + around),
            how,
        )
        .select(
            "account_id",
            F.col("event_id").alias("payment_id"),
            event_instant("event_time").alias("paid_at"),
            "login_id",
            "device",
        )
    )


def event_of(record: Any, event_ms: int, topic: str) -> Event:
    return Event(record.event_id, event_ms, topic, record.account_id, getattr(record, "device", None))


def all_rows(events: Iterable[Event], config: Any) -> list[tuple[Any, ...]]:
    distinct: dict[tuple[str, str, str], Event] = {}
    for event in sorted(events, key=lambda one: (one.event_ms, one.event_id)):
        distinct.setdefault((event.topic, event.account_id, event.event_id), event)
    logins = [event for event in distinct.values() if event.topic == "logins"]
    rows: list[tuple[Any, ...]] = []
    for one in distinct.values():
        if one.topic != "payments":
            continue
        near = [
            login
            for login in logins
            if login.account_id == one.account_id and abs(login.event_ms - one.event_ms) <= AROUND_MS
        ]
        payment = one.account_id, one.event_id, one.event_ms
        rows += [Match(*payment, login.event_id, str(login.device)) for login in near]
        rows += [MatchedPayment(*payment, login.event_id, login.device) for login in near]
        rows += [] if near else [MatchedPayment(*payment, None, None)]
    return rows


JOB = NativeJob(
    key=ACCOUNT,
    fields=every_field(*INPUTS),
    plan=plan,
    event=event_of,
    oracle=all_rows,
    outputs=(Output(Match, MATCHES), Output(MatchedPayment, PAYMENTS)),
    inputs=INPUTS,
)


@dataclass(frozen=True)
class _Matches(Stream):
    @property
    def job(self) -> Any:
        return JOB


MATCHES_STREAM = _Matches("matches", ("matches", "matched_payments"), {"around_ms": AROUND_MS})


class MatchesLaunch(Launch):
    """The topic of payments is that of the launch; the one of logins is beside it."""

    @property
    def logins(self) -> Launch:
        return Launch(self.folder, self.broker, f"{self.topic}-logins", self.partitions, stream=self.stream)

    def document(self, run_id: str = "run-1", **changes: Any) -> dict[str, Any]:
        found = super().document(run_id, **changes)
        return {name: value for name, value in found.items() if name != "topic"} | {
            "topics": [self.topic, self.logins.topic]
        }
