"""A stream that adds up a customer's orders, in three versions of its states and events.

Version 1 keeps a total as a text; version 2 counts coupons, with a field more in states and events; version 3
keeps the total as two numbers, which a function splits out of the text, in states and in held events.

`RELEASES` are those on a real topic; the last one has other keys.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from stateward.runtime.api.key_filter import KeyFilter
from stateward.runtime.api.key_logic import Rows
from stateward.runtime.api.key_step import KeyStep
from stateward.runtime.api.record_fields import EVENT_TIME, Field
from stateward.runtime.api.state_step import PlainEvent, PlainState, StateStep
from stateward.runtime.api.stream_job import Output, StreamJob
from stateward.runtime.api.tables import Column, Table
from tests.support.spark.launches import Launch, Stream

IDLE_MS = 700

ORDERS = Table(
    "orders",
    "Orders of one customer until it was idle",
    (
        Column("customer", "string", "The customer"),
        Column("first_at", "timestamp", "Time of the first order"),
        Column("orders", "long", "How many"),
        Column("cents", "long", "Their amounts"),
        Column("coupons", "long", "Orders with a coupon, of those since it is counted"),
    ),
)


class OrdersRow(NamedTuple):
    """One row of the table."""

    customer: str
    first_ms: int
    orders: int
    cents: int
    coupons: int


class OrderV1(NamedTuple):
    """An order; its price is a text such as ``3.25``."""

    event_id: str
    event_ms: int
    price: str


class OrderV2(NamedTuple):
    """With one field more, at the end."""

    event_id: str
    event_ms: int
    price: str
    coupon: bool = False


class OrderV3(NamedTuple):
    """The price is two numbers."""

    event_id: str
    event_ms: int
    units: int
    cents: int
    coupon: bool


class StateV1(NamedTuple):
    """The total is a text."""

    first_ms: int
    last_ms: int
    orders: int
    total: str


class StateV2(NamedTuple):
    """With one field more."""

    first_ms: int
    last_ms: int
    orders: int
    total: str
    coupons: int = 0


class StateV3(NamedTuple):
    """The total is two numbers."""

    first_ms: int
    last_ms: int
    orders: int
    units: int
    cents: int
    coupons: int


EVENT_TYPES: dict[int, Any] = {1: OrderV1, 2: OrderV2, 3: OrderV3}
STATE_TYPES: dict[int, Any] = {1: StateV1, 2: StateV2, 3: StateV3}


def split(price: str) -> tuple[int, int]:
    units, cents = price.split(".")
    return int(units), int(cents)


def cents_of(one: Any, text: str) -> int:
    """An amount in cents, of an order or of a state, whatever its version."""
    units, cents = split(getattr(one, text)) if hasattr(one, text) else (one.units, one.cents)
    return units * 100 + cents


@dataclass(frozen=True)
class OrderLogic:
    """The logic of all versions; ``of`` is that of the states it keeps."""

    of: int

    def apply(self, key: str, state: Any, event: Any) -> tuple[Any, Rows]:
        first_ms, orders, total, coupons = event.event_ms, 0, 0, 0
        if state is not None:
            first_ms, orders, total = state.first_ms, state.orders, cents_of(state, "total")
            coupons = getattr(state, "coupons", 0)
        total += cents_of(event, "price")
        coupons += getattr(event, "coupon", False)
        amount = divmod(total, 100) if self.of == 3 else (as_text(total),)
        values = (first_ms, event.event_ms, orders + 1, *amount, coupons)
        kind = STATE_TYPES[self.of]
        return kind(*values[: len(kind._fields)]), ()

    def deadline(self, state: Any) -> int:
        return int(state.last_ms + IDLE_MS)

    def expire(self, key: str, state: Any, at_ms: int) -> tuple[None, Rows]:
        coupons = getattr(state, "coupons", 0)
        return None, (OrdersRow(key, state.first_ms, state.orders, cents_of(state, "total"), coupons),)


def as_text(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02}"


def with_coupon(key: str, event: PlainEvent) -> PlainEvent:
    return [*event, False]


def uncounted(key: str, state: PlainState) -> PlainState:
    return {**state, "coupons": 0}


def split_state(key: str, state: PlainState) -> PlainState:
    units, cents = split(state.pop("total"))
    return {**state, "units": units, "cents": cents}


def split_event(key: str, event: PlainEvent) -> PlainEvent:
    event_id, event_ms, price, coupon = event
    return [event_id, event_ms, *split(price), coupon]


FIRST = StateStep(1, "coupons are counted from now on", state=uncounted, event=with_coupon)
SECOND = StateStep(2, "the total is two numbers", state=split_state, event=split_event)

PREFIX = "customer-"


@dataclass(frozen=True)
class NamedLogic(OrderLogic):
    """The logic of the release with prefixed keys; its rows have the customers unchanged."""

    def expire(self, key: str, state: Any, at_ms: int) -> tuple[None, Rows]:
        return super().expire(key.removeprefix(PREFIX), state, at_ms)


def named(key: str) -> str:
    return f"{PREFIX}{key}"


NAMED = KeyStep(1, "a key says that it is a customer's", key=named)


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
    amount = split(price) if version == 3 else (price,)
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
