"""A stream whose events are enriched by a table, and that table: every version says which one it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from stateward.contract.stream_settings import Lookup
from stateward.runtime.api.key_logic import Rows
from stateward.runtime.api.record_fields import EVENT_TIME, Field
from stateward.runtime.api.stream_job import Output, StreamJob
from stateward.runtime.api.tables import Column, Table
from stateward.runtime.delta.lookup_tables import Lookups
from tests.support.spark.launches import Launch, Stream

IDLE_MS = 700
LATENESS_MS = 400
MERCHANTS = ("bakery", "garage", "theatre")
START = datetime(2024, 3, 1, tzinfo=UTC)

PURCHASES = Table(
    "purchases",
    "One purchase",
    (
        Column("event_id", "string", "The purchase"),
        Column("customer", "string", "The customer"),
        Column("bought_at", "timestamp", "When"),
        Column("category", "string", "What the merchant sells, as known when the record was read"),
    ),
    came_at="bought_at",
    nullable=("category",),
)


class PurchaseRow(NamedTuple):
    """One row of the table."""

    event_id: str
    customer: str
    bought_ms: int
    category: str | None


class Merchant(NamedTuple):
    """What is taken of a merchant."""

    category: str | None


class Purchase(NamedTuple):
    """One event."""

    event_id: str
    event_ms: int
    category: str | None


class Spent(NamedTuple):
    """What is kept of a customer."""

    last_ms: int
    purchases: int


class PurchaseLogic:
    """A row per purchase; a customer is forgotten when idle."""

    def apply(self, key: str, state: Spent | None, event: Purchase) -> tuple[Spent, Rows]:
        row = PurchaseRow(event.event_id, key, event.event_ms, event.category)
        return Spent(event.event_ms, 1 + (state.purchases if state else 0)), (row,)

    def deadline(self, state: Spent) -> int:
        return state.last_ms + IDLE_MS

    def expire(self, key: str, state: Spent, at_ms: int) -> tuple[None, Rows]:
        return None, ()


_FIELDS = Field("event_id", "text"), Field("customer", "text"), Field("merchant", "text"), EVENT_TIME


def purchase(record: Any, event_ms: int, lookups: Lookups) -> tuple[Any, ...]:
    merchant = lookups["merchants"].get(record.merchant)
    return record.event_id, event_ms, merchant.category if merchant else None


JOB = StreamJob(
    key=_FIELDS[1],
    fields=lambda config: _FIELDS,
    event=purchase,
    event_type=Purchase,
    state_type=Spent,
    state_version=1,
    logic=lambda config: PurchaseLogic(),
    outputs=(Output(PurchaseRow, PURCHASES),),
    lookups=(Lookup("merchants", "merchant_id", Merchant),),
)


@dataclass(frozen=True)
class _Purchases(Stream):
    @property
    def job(self) -> Any:
        return JOB


PURCHASES_STREAM = _Purchases("purchases", ("purchases",), {"max_held_events": 10_000})


class PurchasesLaunch(Launch):
    """With the table of merchants beside the stream's own."""

    def document(self, run_id: str = "run-1", **changes: Any) -> dict[str, Any]:
        lookups = {"merchants": {"uri": self.uri("merchants"), "key": "", "columns": {}}}
        return super().document(run_id, **{"allowed_lateness_ms": LATENESS_MS, "lookups": lookups, **changes})


def next_version(uri: str) -> int:
    """Write the table of merchants again; each category ends with the version it is of."""
    version = DeltaTable(uri).version() + 1 if DeltaTable.is_deltatable(uri) else 0
    categories = [category(merchant, version) for merchant in MERCHANTS]
    rows = pa.table({"merchant_id": list(MERCHANTS), "category": categories})
    write_deltalake(uri, rows, mode="overwrite")
    return version


def category(merchant: str, version: int) -> str:
    return f"{merchant}, version {version}"


def record(event_id: str, customer: str, merchant: str, offset_ms: int) -> tuple[bytes, bytes]:
    at = (START + timedelta(milliseconds=offset_ms)).isoformat(timespec="milliseconds")
    fields = {"event_id": event_id, "customer": customer, "merchant": merchant, "event_time": at}
    return customer.encode(), json.dumps(fields).encode()
