"""A release with another schema of states, in the middle of a stream.

Its rows are those of a run that had it always. The stream and its versions are those of
`tests/support/streams/orders.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row

from stateward.runtime.api.record_fields import EVENT_TIME, Field
from stateward.runtime.api.state_step import MissingStepError, StateStep
from stateward.runtime.api.stream_job import Output, StreamJob
from stateward.runtime.keyed.state_log import HEAD_NAME, LOG_NAME, encode_chunk
from stateward.runtime.keyed.state_upgrade import UpgradeError
from stateward.runtime.watermark.admission import Limits
from stateward.state.migration.bucket_writer import BucketWriter
from stateward.state.migration.key_migration import KeyMigration
from stateward.state.reader.key_evaluator import KeyEvaluator
from stateward.testing.bucket_bench import BUCKET, BucketBench, close_copies
from stateward.testing.cases import LATENESS, Arrival, out_of_order
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

_LONG = 100_000


def job(version: int, *steps: StateStep) -> StreamJob:
    return StreamJob(
        key=Field("customer", "text"),
        fields=lambda config: (Field("event_id", "text"), EVENT_TIME),
        event=lambda record, event_ms: (),
        event_type=EVENT_TYPES[version],
        state_type=STATE_TYPES[version],
        state_version=version,
        logic=lambda config: OrderLogic(version),
        outputs=(Output(OrdersRow, ORDERS),),
        state_steps=steps,
    )


class Bench(BucketBench):
    """A bucket whose release can change, as with a new driver on the same checkpoint."""

    def __init__(self, folder: Path, of: StreamJob) -> None:
        super().__init__(folder, of, OrderLogic(of.state_version))
        self.release(of)

    def release(self, of: StreamJob) -> None:
        self.end_task()
        processor = self.processor
        processor._logic = OrderLogic(of.state_version)
        processor._state_type, processor._event_type = of.state_type, of.event_type
        processor._state_version, processor._state_steps = of.state_version, of.state_steps
        processor.init(cast("Any", self.tester.handle))

    @property
    def version(self) -> int:
        head = self.tester.peekValueState(HEAD_NAME, BUCKET)
        assert head is not None
        return int(head[6])

    @property
    def chunks(self) -> int:
        return len(self.tester.peekMapState(LOG_NAME, BUCKET))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    close_copies()


Sent = tuple[str, str, int, int, bool]  # customer, event id, time, cents, whether with a coupon
Plan = list[tuple[list[Sent], int | None, bool]]


def order(event_id: str, at: int, cents: int, version: int = 1, coupon: bool = False) -> Any:
    amount = divmod(cents, 100) if version == 3 else (as_text(cents),)
    kind = EVENT_TYPES[version]
    return kind(*(event_id, at, *amount, coupon)[: len(kind._fields)])


def orders(events: list[Sent], version: int) -> list[Arrival]:
    return [(key, order(event_id, at, cents, version, coupon)) for key, event_id, at, cents, coupon in events]


def rows(bench: BucketBench) -> list[str]:
    return sorted(map(str, bench.rows["orders"]))


def totals(bench: BucketBench) -> list[tuple[str, int]]:
    return sorted((row["customer"], row["cents"]) for row in bench.rows["orders"])


EVENTS = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.uuids().map(str),
        st.integers(0, 4000),
        st.integers(0, 999),
        st.booleans(),
    ),
    min_size=2,
    max_size=25,
)


@pytest.mark.parametrize(
    ("old", "new", "steps"),
    [(1, 2, ()), (1, 2, (FIRST,)), (2, 3, (SECOND,)), (1, 3, (FIRST, SECOND))],
    ids=["a field is added", "a field is added by a step", "a field is split", "both at once"],
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_rows_are_those_of_a_run_that_had_the_new_version_always(
    old: int,
    new: int,
    steps: tuple[StateStep, ...],
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Random batches, an upgrade at any point, lost copies of states and restarted tasks."""
    plan = draw_plan(data.draw(EVENTS), data)
    change = data.draw(st.integers(0, len(plan) - 1))
    if old == 1:  # which has no coupons
        plan = [
            ([(*one[:4], one[4] and number >= change) for one in batch], watermark_ms, is_lost)
            for number, (batch, watermark_ms, is_lost) in enumerate(plan)
        ]
    upgraded = Bench(tmp_path_factory.mktemp("copy"), job(old))
    always = Bench(tmp_path_factory.mktemp("copy"), job(new, *steps))
    for number, (batch, watermark_ms, lost) in enumerate(plan):
        if number == change:
            upgraded.release(job(new, *steps))
        upgraded.batch(*orders(batch, old if number < change else new))
        always.batch(*orders(batch, new))
        upgraded.fail_task() if lost else upgraded.end_task()
        if watermark_ms is not None:
            for bench in (upgraded, always):
                bench.watermark(watermark_ms)
    require_same_rows(upgraded, always)


def require_same_rows(one: Bench, other: Bench) -> None:
    """Let all timeouts of both pass, and compare their rows and counts."""
    for bench in (one, other):
        for later in range(1, 4):
            bench.watermark(4000 + later * _LONG)
        assert bench.is_empty
        bench.end_task()
    close_copies()
    assert rows(one) == rows(other)
    assert one.counts == other.counts


def migrate(bench: Bench, to: StreamJob) -> None:
    """Migrate a bucket with the functions of a migration."""
    bench.end_task()
    if not bench.is_empty:
        evaluator = KeyEvaluator(NamedLogic(3), to.state_type, to.event_type, Limits(LATENESS, max_held=100))
        steps = KeyMigration("orders", evaluator, (NAMED,), to.state_version, to.state_steps).begin()
        states = {}
        for old, state in bench.states.items():
            key = steps.key(old)
            states[key] = steps.state(bench.version, key, json.dumps(state).encode())
        parts = [
            Row(entries=encode_chunk({key: text}), keys=1, timer_ms=steps.wake_ms(key, text))
            for key, text in states.items()
        ]
        writer, handle = BucketWriter(to.state_version), cast("Any", bench.tester.handle)
        writer.init(handle)
        handle.setGroupingKey(BUCKET)
        nothing = Row(entries=None, keys=0, timer_ms=None)
        assert list(writer.handleInputRows(BUCKET, iter([*parts, nothing]), cast("Any", None))) == []
        assert (len(bench.states), bench.chunks, bench.version) == (len(states), len(states), 3)
    bench.release(to)
    bench.processor._logic = NamedLogic(3)


@pytest.mark.parametrize("old", [1, 2, 3])
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_rows_are_those_of_a_run_that_had_the_new_keys_always(
    old: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Migration of keys and schema together, at any point of a stream."""
    plan = draw_plan(data.draw(EVENTS), data)
    change = data.draw(st.integers(0, len(plan) - 1))
    plan = [
        ([(*one[:4], one[4] and (old > 1 or number >= change)) for one in batch], watermark_ms, is_lost)
        for number, (batch, watermark_ms, is_lost) in enumerate(plan)
    ]
    new = job(3, FIRST, SECOND)
    migrated, always = (Bench(tmp_path_factory.mktemp("copy"), job_) for job_ in (job(old), new))
    always.processor._logic = NamedLogic(3)
    for number, (batch, watermark_ms, _) in enumerate(plan):
        if number == change:
            migrate(migrated, new)
        is_new = number >= change
        arriving = orders(batch, 3 if is_new else old)
        migrated.batch(*((named(key) if is_new else key, event) for key, event in arriving))
        always.batch(*((named(key), event) for key, event in orders(batch, 3)))
        for bench in (migrated, always):
            bench.end_task()
            if watermark_ms is not None:
                bench.watermark(watermark_ms)
    require_same_rows(migrated, always)


def draw_plan(events: list[Sent], data: st.DataObject) -> Plan:
    """Batches, the watermark after each if it advances, and whether the copy is lost."""
    sent = {event_id: (key, event_id, *rest) for key, event_id, *rest in events}
    waiting: list[Any] = [
        sent[event.event_id] for _, event in out_of_order(orders(events, 1), data, LATENESS)
    ]
    plan: Plan = []
    largest = watermark_ms = 0
    while waiting:
        size = data.draw(st.integers(1, len(waiting)))
        batch, waiting = waiting[:size], waiting[size:]
        largest = max([largest, *(at for _, _, at, *_ in batch)])
        moved = largest - LATENESS > watermark_ms
        watermark_ms = max(watermark_ms, largest - LATENESS)
        plan.append((batch, watermark_ms if moved else None, data.draw(st.booleans())))
    return plan


def test_a_bucket_is_brought_to_the_new_version_at_once(folder: Path) -> None:
    """No chunk of the old version remains beside those of the new one."""
    bench = Bench(folder, job(1))
    for number in range(3):
        bench.batch(*((f"c{number}{key}", order("a", 100 + key, 250)) for key in range(4)))
    assert (bench.version, bench.chunks) == (1, 3)
    bench.release(job(3, FIRST, SECOND))

    bench.batch(("c00", order("b", 150, 175, 3)))

    assert (bench.version, bench.chunks) == (3, 1)
    assert len(bench.states) == 12
    assert bench.states["c11"]["held"] == [["a", 101, 2, 50, False]]
    bench.watermark(2000)
    assert ("c00", 425) in totals(bench)
    assert bench.is_empty


def test_a_timer_upgrades_a_bucket_as_an_event_does(folder: Path) -> None:
    bench = Bench(folder, job(1))
    bench.batch(("c", order("a", 100, 250)))
    bench.watermark(150)
    bench.release(job(3, FIRST, SECOND))
    bench.watermark(800)
    assert totals(bench) == [("c", 250)]
    assert bench.is_empty


def test_a_task_that_fails_after_the_upgrade_does_it_again(folder: Path) -> None:
    bench = Bench(folder, job(2))
    bench.batch(("c", order("a", 100, 250, 2)))
    bench.watermark(150)
    bench.release(job(3, SECOND))
    bench.batch(("c", order("b", 200, 100, 3)))
    bench.fail_task()  # the log has version 3, and the copy still version 2
    bench.watermark(2000)
    assert totals(bench) == [("c", 350)]


def test_an_added_field_is_written_into_old_states_by_the_upgrade(folder: Path) -> None:
    """Even without a declared step, so that the next step finds the field in every state."""
    bench = Bench(folder, job(1))
    bench.batch(("c", order("a", 100, 250)), ("d", order("a", 100, 250)))
    bench.watermark(150)
    bench.batch(("c", order("b", 160, 250)), ("d", order("b", 160, 250)))
    assert bench.states["c"]["state"] == {"first_ms": 100, "last_ms": 100, "orders": 1, "total": "2.50"}
    bench.release(job(2))
    bench.batch(("d", order("c", 170, 250, 2)))
    assert bench.states["c"]["state"]["coupons"] == 0
    assert bench.states["c"]["held"] == [["b", 160, "2.50", False]]


@pytest.mark.parametrize(
    ("of", "to", "message"),
    [
        (1, job(3, SECOND), "from 1 to 3, found none from 1: declare it in STATE_STEPS"),
        (2, job(1), "of version 1 or older, found version 2: a newer release"),
    ],
)
def test_what_cannot_be_brought_to_the_version_stops_the_batch(
    of: int, to: StreamJob, message: str, folder: Path
) -> None:
    bench = Bench(folder, job(of))
    bench.batch(("c", order("a", 100, 250, of)))
    record = dict(bench.states)
    bench.release(to)
    with pytest.raises(MissingStepError, match=message):
        bench.batch(("c", order("b", 150, 250, to.state_version)))
    bench.fail_task()
    assert bench.states == record


def test_a_step_that_fails_is_named_with_its_key(folder: Path) -> None:
    bench = Bench(folder, job(2))
    bench.batch(("c", order("a", 100, 250, 2)))
    bench.release(job(3, SECOND._replace(event=None)))
    with pytest.raises(
        UpgradeError, match=r"key \*\*\*\(1\): expected its state of version 2 to become one of version 3"
    ):
        bench.batch(("c", order("b", 150, 250, 3)))
    bench.fail_task()
