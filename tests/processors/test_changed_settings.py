"""When a changed setting applies to existing states, as the compatibility verdict states."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_jobs.device_lifecycle.declaration import DEVICE_ALERTS, JOB
from spark_jobs.device_lifecycle.machine import DeviceMachine
from spark_jobs.device_lifecycle.model import DeviceReading, DeviceSettings
from stateward.testing.bucket_bench import BucketBench

LONG, SHORT = (
    DeviceMachine(DeviceSettings(offline_after_ms=after_ms, forget_after_ms=5000)) for after_ms in (1000, 300)
)


def offline_at(bench: BucketBench) -> list[int]:
    rows = bench.rows[DEVICE_ALERTS.name]
    return [round(row["raised_at"].timestamp() * 1000) for row in rows if row["kind"] == "OFFLINE"]


def reading(event_id: str, at: int) -> tuple[str, DeviceReading]:
    return "d", DeviceReading(event_id, at, "running")


def settled(logic: DeviceMachine) -> BucketBench:
    """A device with an event at 100 and an alarm for its timeout."""
    bench = BucketBench(None, JOB, logic)
    bench.batch(reading("a", 100))
    bench.watermark(101)
    assert bench.states["d"]["state"]["last_ms"] == 100
    bench.end_task()
    return bench


@pytest.mark.parametrize(
    ("before", "after", "said_ms"), [(LONG, SHORT, 400), (SHORT, LONG, 1100)], ids=["shorter", "longer"]
)
def test_a_changed_timeout_holds_from_the_later_of_both_and_says_the_new_time(
    before: DeviceMachine, after: DeviceMachine, said_ms: int
) -> None:
    bench = settled(before)
    bench.processor._logic = after
    bench.watermark(1099)
    assert offline_at(bench) == []
    bench.watermark(1100)
    assert offline_at(bench) == [said_ms]


def test_a_shorter_timeout_holds_from_the_next_event() -> None:
    bench = settled(LONG)
    bench.processor._logic = SHORT
    bench.batch(reading("b", 700))
    bench.watermark(701)
    assert offline_at(bench) == [400]


@pytest.mark.parametrize("eager", [True, False], ids=["to eager", "to watermark"])
def test_a_changed_emission_loses_and_repeats_nothing(eager: bool) -> None:
    """Events in order, so that the rows of both are the same."""
    times = [100, 150, 200, 900, 950, 2500, 2600]
    bench = BucketBench(None, JOB, SHORT, eager=not eager)
    for number, at in enumerate(times):
        if number == 3:
            bench.end_task()
            bench.processor._limits = replace(bench.processor._limits, eager=eager)
        bench.batch(reading(f"e{number}", at))
        bench.watermark(at - 50)
    bench.watermark(10_000)
    bench.watermark(20_000)

    assert bench.counts["accepted"] == len(times)
    assert (bench.counts["late"], bench.counts["duplicates"]) == (0, 0)
    assert offline_at(bench) == [500, 1250, 2900]
    assert [row["reading_count"] for row in bench.rows["device_status"]][-1] == len(times)
    assert bench.is_empty


def test_a_shorter_lateness_lets_go_what_is_held() -> None:
    """Lateness affects the watermark and how long ids are kept; held events are folded, and not lost."""
    bench = BucketBench(None, JOB, SHORT)
    bench.batch(reading("a", 100), reading("b", 180))
    bench.end_task()
    bench.processor._limits = replace(bench.processor._limits, lateness_ms=10)
    bench.watermark(190)
    bench.watermark(10_000)
    bench.watermark(20_000)
    assert offline_at(bench) == [480]
    assert [row["reading_count"] for row in bench.rows["device_status"]][-1] == 2
    assert bench.is_empty
