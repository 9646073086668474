"""Metrics of a driver: the trend of its lag, its memory, and its state operators."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

import psutil
import pytest

from stateward.runtime.api.config import parse_config
from stateward.runtime.kafka.broker import Broker
from stateward.runtime.telemetry.lag import LagTrend
from stateward.runtime.telemetry.memory import DriverMemory, tree_bytes
from stateward.runtime.telemetry.monitor import TopicMonitor
from stateward.runtime.telemetry.operator_metrics import operator_measures
from stateward.runtime.telemetry.progress import Position
from tests.unit.runtime.telemetry.test_documents import CONFIG

BEGIN = 1_700_000_000.0


def trend_of(lags: list[int], every_s: float = 5) -> LagTrend:
    trend = LagTrend()
    for number, lag in enumerate(lags):
        trend.note(BEGIN + number * every_s, lag)
    return trend


@pytest.mark.parametrize(
    ("lags", "change"),
    [
        ([100 + 10 * number for number in range(12)], 2.0),
        ([1000 - 50 * number for number in range(12)], -10.0),
        ([500] * 60, 0.0),
        ([500] * 11, None),
        # Old samples do not count.
        ([0] * 200 + [10 * number for number in range(61)], 2.0),
    ],
    ids=["grows", "shrinks", "stands", "first minute", "grows for five minutes"],
)
def test_the_trend_of_the_lag(lags: list[int], change: float | None) -> None:
    assert trend_of(lags).change_per_s == change


def test_a_backlog_that_is_read_in_large_batches_is_no_growth() -> None:
    # 100 records arrive per second, and every 50 seconds a batch processes all waiting records.
    sawtooth = [500 * (number % 10) for number in range(60)]
    change = trend_of(sawtooth).change_per_s
    assert change is not None
    assert abs(change) < 10


def test_looks_between_two_samples_change_nothing_and_a_clock_set_back_starts_over() -> None:
    trend = trend_of(list(range(120)), every_s=0.5)
    assert trend.change_per_s == 2.0
    trend.note(BEGIN - 3600, 7)
    assert trend.change_per_s is None


def test_records_wait_since_the_last_look_without_any() -> None:
    trend = LagTrend()
    seen = []
    for at, lag in enumerate([0, 3, 9, 0, 2]):
        trend.note(BEGIN + at, lag)
        seen.append(trend.behind_since_s and trend.behind_since_s - BEGIN)
    assert seen == [None, 1, 1, None, 4]


class Topic:
    """A STAND-IN for the broker, which needs a server: one partition with a given end offset."""

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        return {0: 9}


def test_the_monitor_says_since_when_records_wait() -> None:
    said: dict[str, Any] = {}
    monitor = TopicMonitor(
        config=parse_config(CONFIG, "test"),
        broker=cast(Broker, Topic()),
        partitions={CONFIG["topic"]: 1},
        position=lambda: Position(3, {CONFIG["topic"]: {0: 5}}, 0),
        publish=lambda **fields: said.update(fields),
        clock=lambda: datetime(2026, 1, 1, tzinfo=UTC),
    )
    monitor.poll()
    assert said == {
        "lag_records": 4,
        "lag_by_topic": None,
        "caught_up": False,
        "lag_change_per_s": None,
        "behind_since": "2026-01-01T00:00:00.000Z",
    }


def test_the_monitor_says_of_which_topic_records_wait() -> None:
    said: dict[str, Any] = {}
    several = {name: value for name, value in CONFIG.items() if name != "topic"} | {"topics": ["a", "b"]}
    TopicMonitor(
        config=parse_config(several, "test"),
        broker=cast(Broker, Topic()),
        partitions={"a": 1, "b": 1},
        position=lambda: Position(3, {"a": {0: 5}}, 0),
        publish=lambda **fields: said.update(fields),
        clock=lambda: datetime(2026, 1, 1, tzinfo=UTC),
    ).poll()
    assert (said["lag_records"], said["lag_by_topic"]) == (13, {"a": 4, "b": 9})


def test_the_memory_of_a_driver_is_that_of_all_its_processes() -> None:
    hold = "held = bytearray(80_000_000); print(1, flush=True); import time; time.sleep(60)"
    before = tree_bytes(os.getpid())
    with subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        after = tree_bytes(os.getpid())
        child.kill()
    assert before is not None
    assert after is not None
    assert after - before > 80_000_000
    assert not psutil.pid_exists(child.pid)
    assert tree_bytes(child.pid) is None


def test_memory_is_measured_now_and_then() -> None:
    memory = DriverMemory(os.getpid(), partial(pytest.fail, "nothing has been read"))
    looks = [memory.look(at, None) for at in (5.0, 5.5, 14.9, 15.0, 500.0)]
    assert [bool(look) for look in looks] == [True, False, False, True, True]
    assert looks[0]["memory_bytes"] > 1_000_000


def test_a_driver_gives_memory_back_once_after_a_minute_without_a_large_batch() -> None:
    given: list[float] = []
    now = 0.0
    memory = DriverMemory(os.getpid(), lambda: given.append(now))
    for now, records in (
        *((0.0, 5), (100.0, 1000), (130.0, 5000), (160.0, None), (189.5, 7)),
        *((190.0, None), (190.5, None), (300.0, 999)),
        *((400.0, 1000), (459.5, 0), (460.0, 1), (900.0, None)),
    ):
        memory.look(now, records)
    assert given == [190.0, 460.0]


def operator(**changes: Any) -> dict[str, Any]:
    return {
        "operatorName": "transformWithState",
        "numRowsTotal": 1753,
        "numRowsUpdated": 12,
        "numRowsRemoved": 3,
        "memoryUsedBytes": 812_345,
        "allUpdatesTimeMs": 600,
        "allRemovalsTimeMs": 40,
        "commitTimeMs": 1000,
        "numShufflePartitions": 4,
        "customMetrics": {"rocksdbSstFileSize": 5000},
        **changes,
    }


def test_the_times_of_a_batch_are_those_of_one_task_and_of_one_record() -> None:
    found = operator_measures([operator()], 1200)
    assert {name: value for name, value in found.items() if name != "operators"} == {
        "state_commit_ms": 250.0,
        "state_removal_ms": 10.0,
        "state_update_ms": 0.5,
        "state_file_bytes": 5000,
    }
    two = operator_measures([operator(), operator(numShufflePartitions=2)], 1200)
    assert (two["state_commit_ms"], two["state_update_ms"], two["state_file_bytes"]) == (750.0, 1.0, 10_000)


def test_what_a_batch_cannot_tell_is_null() -> None:
    assert operator_measures([operator()], 99)["state_update_ms"] is None
    assert operator_measures([operator(customMetrics={})], 0)["state_file_bytes"] is None
    assert set(operator_measures([], 1200).values()) == {None}


def test_each_operator_has_what_spark_has_counted_of_it() -> None:
    cache = {"rocksdbReadBlockCacheHitCount": 90, "rocksdbReadBlockCacheMissCount": 10}
    files = {"rocksdbSstFileSize": 5000}
    named = [operator(customMetrics={**files, **cache}), operator(customMetrics={}), operator()]
    named[2]["operatorName"] = "symmetricHashJoin"
    first, second, third = operator_measures(named, 0)["operators"]
    assert first == {
        "name": "transformWithState",
        "rows": 1753,
        "updated": 12,
        "removed": 3,
        "memory_bytes": 812_345,
        "file_bytes": 5000,
        "commit_ms": 250.0,
        "cache_hits": 90,
        "cache_misses": 10,
    }
    assert (second["name"], third["name"]) == ("transformWithState 2", "symmetricHashJoin")
    assert (second["file_bytes"], second["cache_hits"]) == (None, None), "another store counts neither"
