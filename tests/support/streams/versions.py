"""The stream of `orders.py` on a real topic, release by release; the last one has other keys."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from stateward.runtime.api.key_filter import KeyFilter
from stateward.runtime.api.key_step import KeyStep
from stateward.runtime.api.record_fields import EVENT_TIME, Field
from stateward.runtime.api.stream_job import Output, StreamJob
from tests.support.spark.launches import Launch, Stream
from tests.support.streams.orders import (
    EVENT_TYPES,
    FIRST,
    NAMED,
    ORDERS,
    SECOND,
    STATE_TYPES,
    NamedLogic,
    OrderLogic,
    OrdersRow,
    as_text,
    named,
)

START = datetime(2024, 3, 1, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
CUSTOMERS = 40
_FIELDS = (
    Field("event_id", "text"),
    Field("customer", "text"),
    Field("price", "text"),
    Field("coupon", "flag", required=False),
    EVENT_TIME,
)


def _customer(record: Any) -> str:
    return named(record.customer)


def _event(version: int) -> Any:
    def event(record: Any, event_ms: int) -> tuple[Any, ...]:
        return order_of(version, record.event_id, event_ms, record.price, bool(record.coupon))

    return event


def order_of(version: int, event_id: str, event_ms: int, price: str, coupon: bool) -> tuple[Any, ...]:
    units, cents = price.split(".")
    amount = (int(units), int(cents)) if version == 3 else (price,)
    kind = EVENT_TYPES[version]
    order: tuple[Any, ...] = kind(*(event_id, event_ms, *amount, coupon)[: len(kind._fields)])
    return order


def _job(version: int, **changes: Any) -> StreamJob:
    made = StreamJob(
        key=_FIELDS[1],
        fields=lambda config: _FIELDS,
        event=_event(version),
        event_type=EVENT_TYPES[version],
        state_type=STATE_TYPES[version],
        state_version=version,
        logic=lambda config: OrderLogic(version),
        outputs=(Output(OrdersRow, ORDERS),),
        state_steps=(FIRST, SECOND)[: version - 1],
    )
    return replace(made, **changes)


RELEASES = {
    "1": _job(1),
    "a field added": _job(2),
    "a field split": _job(3),
    "the key retyped": _job(
        3, key_of=_customer, key_version=2, key_steps=(NAMED,), logic=lambda config: NamedLogic(3)
    ),
}


@dataclass(frozen=True)
class Released(Stream):
    """The stream in one release."""

    release: Any = None

    @property
    def job(self) -> Any:
        return self.release


def stream_of(release: StreamJob, name: str = "orders") -> Released:
    return Released(name, (name,), {"max_held_events": 10_000}, release)


def _is_odd(key: str) -> bool:
    return int(key) % 2 == 1


_ODD = KeyFilter("odd customers", _is_odd)
_APART = KeyStep(1, "odd customers have a stream of their own")
ODD_ORDERS = "odd_orders"
# The release in which the stream is two.
EVEN_RELEASE = replace(RELEASES["a field split"], only=(_ODD.others(),), key_version=2, key_steps=(_APART,))
ODD_RELEASE = replace(
    EVEN_RELEASE, only=(_ODD,), outputs=(Output(OrdersRow, replace(ORDERS, name=ODD_ORDERS)),)
)


@dataclass(frozen=True)
class SentOrder:
    """One order as it is sent; only the later ones know coupons."""

    event_id: str
    customer: str
    event_ms: int
    price: str
    coupon: bool

    @property
    def record(self) -> tuple[bytes, bytes]:
        at = START + timedelta(milliseconds=self.event_ms - START_MS)
        fields: dict[str, Any] = {
            "event_id": self.event_id,
            "customer": self.customer,
            "price": self.price,
            "event_time": at.isoformat(timespec="milliseconds"),
        }
        if self.coupon:
            fields["coupon"] = True
        return self.customer.encode(), json.dumps(fields).encode()


def sent_orders(seed: int, parts: int, each: int) -> list[list[SentOrder]]:
    """Orders in parts, one after the other in time, in each out of order by less than half a second."""
    rng = random.Random(seed)
    made = []
    for part in range(parts):
        begin_ms = START_MS + part * 1000
        orders = [
            SentOrder(
                f"{part}-{number}",
                str(rng.randrange(CUSTOMERS)),
                begin_ms + rng.randrange(1000),
                as_text(rng.randrange(10_000)),
                part > 0 and rng.random() < 0.3,
            )
            for number in range(each)
        ]
        made.append(sorted(orders, key=lambda order: order.event_ms + rng.randrange(400)))
    return made


class LateLaunch(Launch):
    """With a lateness that leaves some events held."""

    def document(self, run_id: str = "run-1", **changes: Any) -> dict[str, Any]:
        return super().document(run_id, **{"allowed_lateness_ms": 400, **changes})
