"""What holds for the life of any device, in order and on arrival."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given, settings

from spark_jobs.device_lifecycle.model import (
    FINAL,
    STATUSES,
    DeviceReading,
    DeviceState,
    DeviceStatus,
)
from stateward.runtime.api.key_logic import replay_oracle
from stateward.runtime.watermark.admission import order
from stateward.testing.declarations import timelines
from tests.streams.device_lifecycle.test_machine import (
    EAGER,
    END,
    FORGET_TICKS,
    MACHINE,
    OFFLINE_TICKS,
    alerts_of,
    reading,
    readings_of,
    statuses_of,
    stream,
)

arrivals_of_a_device = timelines(reading, "rrrrriieEox", until=150, most=40)


def by_definition(readings: Iterable[DeviceReading]) -> tuple[int, list[tuple[str, int, int | None]]]:
    """Total runtime of all lives, and the alerts: computed from the gaps, without a machine."""
    runtime, alerts = 0, list[tuple[str, int, int | None]]()
    last: int | None = None
    said = "unknown"
    for one in sorted(readings, key=order):
        gap = 0 if last is None else one.event_ms - last
        if last is not None and gap >= OFFLINE_TICKS:
            alerts.append(("OFFLINE", last + OFFLINE_TICKS, None))
            if gap < OFFLINE_TICKS + FORGET_TICKS:
                alerts.append(("BACK_ONLINE", one.event_ms, gap))
        elif said == "running":
            runtime += gap
        known = one.status in STATUSES
        said = one.status if known else "unknown" if last is None or gap >= OFFLINE_TICKS else said
        last = None if one.status == "retired" else one.event_ms
    if last is not None:
        alerts.append(("OFFLINE", last + OFFLINE_TICKS, None))
    return runtime, alerts


@settings(max_examples=200, deadline=None)
@given(drawn=arrivals_of_a_device)
def test_runtime_and_alerts_are_those_of_their_definition(drawn: list[DeviceReading]) -> None:
    readings = drawn
    rows = replay_oracle(MACHINE, "dev", readings)
    runtime, alerts = by_definition(readings)

    ends = [row for row in statuses_of(rows) if row.mode in FINAL]
    assert sum(row.runtime_ms for row in ends) == runtime
    assert [(row.kind, row.raised_ms, row.silence_ms) for row in alerts_of(rows)] == alerts
    assert sum(row.reading_count for row in ends) == len(readings)
    versions = [row.version for row in statuses_of(rows)]
    assert all(before < after for before, after in pairwise(versions))


@settings(max_examples=200, deadline=None)
@given(drawn=arrivals_of_a_device)
def test_on_arrival_in_any_order_no_reading_is_lost_and_the_state_goes(drawn: list[DeviceReading]) -> None:
    # The choices are unordered in time, so they arrive as they were drawn.
    kept, rows = stream(*[(0, [one]) for one in drawn], (END, []), limits=EAGER)

    assert kept.is_empty
    life: list[DeviceStatus] = []
    for status in statuses_of(rows):
        assert not life or life[-1].version < status.version
        assert status.first_seen_ms <= status.last_heartbeat_ms <= status.updated_ms
        assert status.changed_ms <= status.updated_ms
        assert 0 <= status.runtime_ms <= status.last_heartbeat_ms - status.first_seen_ms
        life = [] if status.mode in FINAL else [*life, status]
    ends = [row for row in statuses_of(rows) if row.mode in FINAL]
    assert sum(row.reading_count for row in ends) == len(drawn)
    back = [row for row in alerts_of(rows) if row.kind == "BACK_ONLINE"]
    assert all(row.silence_ms is not None and row.silence_ms >= OFFLINE_TICKS for row in back)
    assert len({row.alert_id for row in alerts_of(rows)}) == len(alerts_of(rows))


def test_a_gap_of_the_timeout_is_no_runtime_even_if_nobody_let_the_timeout_pass() -> None:
    running = DeviceState("running", "running", 0, 5, "5", 0, runtime_ms=5)

    for gap, runtime in ((OFFLINE_TICKS - 1, 14), (OFFLINE_TICKS, 5)):
        after, _ = MACHINE.apply("dev", running, reading("r", 5 + gap))
        assert after is not None
        assert after.runtime_ms == runtime


def test_on_arrival_an_older_reading_is_counted_and_moves_nothing() -> None:
    late = [(0, [reading("E", 3)]), (0, [reading("x", 4)]), (0, [reading("i", 0)])]
    _, rows = stream((0, readings_of(".r...r")), *late, limits=EAGER)

    last = statuses_of(rows)[-1]
    assert (last.mode, last.last_heartbeat_ms, last.runtime_ms) == ("running", 5, 4)
    assert (last.reading_count, last.error_codes, last.first_seen_ms) == (5, ("E3",), 0)
    assert max(statuses_of(rows), key=lambda row: row.version) == last
