"""However a stream's input is cut, shuffled and interrupted: its rows are the oracle's, its state empties.

Every stream of the catalogue goes through the processor that Spark runs. Durations are scaled down, so that
few events meet every timeout; a jitter may spread those. The full number of examples is that of `make test`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs.action_counts import declaration as action_counts
from spark_jobs.action_counts.logic import CountLogic
from spark_jobs.action_counts.model import ActionEvent
from spark_jobs.device_lifecycle import declaration as device_lifecycle
from spark_jobs.device_lifecycle.machine import DeviceMachine
from spark_jobs.device_lifecycle.model import DeviceReading
from spark_jobs.fraud_watch import declaration as fraud_watch
from spark_jobs.fraud_watch.machine import FraudMachine
from spark_jobs.fraud_watch.model import PaymentEvent
from spark_jobs.intrusion_patterns import declaration as intrusion_patterns
from spark_jobs.intrusion_patterns.logic import IntrusionLogic
from spark_jobs.intrusion_patterns.model import Pattern, SecurityEvent
from spark_jobs.runtime.keyed import KeyLogic, fold_all
from spark_jobs.runtime.rows import decode_rows, encode_rows
from spark_jobs.runtime.stream_job import StreamJob
from spark_jobs.user_activity import declaration as user_activity
from spark_jobs.user_activity.logic import ActivityLogic
from spark_jobs.user_activity.model import ActivityEvent
from spark_jobs.user_sessions import declaration as user_sessions
from spark_jobs.user_sessions.logic import SessionLogic
from spark_jobs.user_sessions.model import SessionEvent
from tests.processors.bucket_bench import LATENESS, Arrival, BucketBench, close_copies

# Longer than any chain of the timeouts below.
_LONG = 100_000
_MICROS = 1_000_000
_STEPS = ("scan", "failure", "escalation")


@dataclass(frozen=True)
class Case:
    """A stream, its logic with short durations, and what its events may say beside id and time."""

    job: StreamJob
    logic: KeyLogic[Any, Any]
    event: Callable[..., Any]
    values: tuple[st.SearchStrategy[Any], ...]


CASES = {
    "action_counts": Case(action_counts.JOB, CountLogic(600), ActionEvent, (st.sampled_from("xyz"),)),
    "user_sessions": Case(
        user_sessions.JOB,
        SessionLogic(1000),
        SessionEvent,
        (
            st.sampled_from("xy"),
            st.integers(0, 6).map(lambda number: number == 0),
            st.none() | st.integers(1, 2500),
        ),
    ),
    "user_activity": Case(
        user_activity.JOB,
        ActivityLogic(session_timeout_ms=800, counter_idle_ms=2000),
        ActivityEvent,
        (st.sampled_from(("login", "login", "logout", "logout", "lunch")),),
    ),
    "fraud_watch": Case(
        fraud_watch.JOB,
        FraudMachine(
            velocity_count=3,
            velocity_amount_micros=50 * _MICROS,
            velocity_window_ms=600,
            authentication_window_ms=300,
            idle_ms=1000,
            review_ms=2500,
            safety_ms=3000,
        ),
        PaymentEvent,
        (
            st.sampled_from(
                ("transaction",) * 5 + ("authenticated", "review_confirmed", "case_closed", "refund")
            ),
            st.integers(0, 30).map(lambda amount: amount * _MICROS),
        ),
    ),
    "device_lifecycle": Case(
        device_lifecycle.JOB,
        DeviceMachine(offline_after_ms=600, forget_after_ms=1500),
        DeviceReading,
        (
            st.sampled_from(("running", "running", "idle", "error", "retired", "odd")),
            st.none() | st.sampled_from(("E1", "E2")),
        ),
    ),
    "intrusion_patterns": Case(
        intrusion_patterns.JOB,
        IntrusionLogic(
            (
                Pattern("long", _STEPS, 1200, "Look."),
                Pattern("short", ("failure", "escalation"), 400, "Look."),
            )
        ),
        SecurityEvent,
        (st.sampled_from((*_STEPS, "other")),),
    ),
}


def arrivals(case: Case) -> st.SearchStrategy[list[Arrival]]:
    event = st.builds(case.event, st.uuids().map(str), st.integers(0, 5000), *case.values)
    return st.lists(st.tuples(st.sampled_from("abcdef"), event), min_size=1, max_size=30)


def play(bench: BucketBench, events: list[Arrival], data: st.DataObject) -> None:
    """Send the events, out of order within the lateness, in any batches, with tasks that end and fail."""
    delays = [data.draw(st.integers(0, LATENESS)) for _ in events]
    waiting = [e for _, e in sorted(zip(delays, events, strict=True), key=lambda p: p[0] + p[1][1].event_ms)]
    largest = watermark = 0
    while waiting:
        size = data.draw(st.integers(1, len(waiting)))
        batch, waiting = waiting[:size], waiting[size:]
        bench.batch(*batch)
        largest = max([largest, *(e.event_ms for _, e in batch)])
        {"end": bench.end_task, "fail": bench.fail_task, "go on": lambda: None}[
            data.draw(st.sampled_from(["end", "fail", "go on"]))
        ]()
        if largest - LATENESS > watermark:
            watermark = largest - LATENESS
            bench.watermark(watermark)
    for later in range(1, 6):
        bench.watermark(watermark + later * _LONG)


def expected(case: Case, events: list[Arrival]) -> dict[str, list[str]]:
    """The oracle's rows by table, sorted."""
    rows: list[tuple[Any, ...]] = []
    for key in {key for key, _ in events}:
        rows += fold_all(case.logic, key, [event for owner, event in events if owner == key])
    tables = {}
    for output in case.job.outputs:
        mine = [row for row in rows if type(row) is output.row]
        tables[output.table.name] = sorted(map(str, decode_rows(encode_rows(output.table, mine)).to_pylist()))
    return tables


@pytest.mark.parametrize("name", CASES)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_the_rows_are_those_of_the_oracle_and_the_state_empties(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    case = CASES[name]
    events = data.draw(arrivals(case))
    jitter_ms = data.draw(st.just(0) | st.integers(1, 1500))
    bench = BucketBench(tmp_path_factory.mktemp("copy"), case.job, case.logic, jitter_ms=jitter_ms)
    play(bench, events, data)

    found = {
        output.table.name: sorted(map(str, bench.rows[output.table.name])) for output in case.job.outputs
    }
    assert found == expected(case, events)
    assert bench.counts["accepted"] == len(events)
    assert bench.timers == ([] if bench.reported is None else [bench.reported])
    assert bench.is_empty
    if bench.processor._cache is not None:
        bench.end_task()
    close_copies()
