"""Plans of a stream that reads several topics: one watermark, that of the slowest of all partitions."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any, cast

import pytest

from stateward.runtime.checkpoint.batch_plan import plan_from_json
from stateward.runtime.kafka.broker import Broker
from stateward.runtime.kafka.broker_clock import BrokerClock
from stateward.runtime.kafka.planner import Planner, Scan, TimeSource
from stateward.runtime.kafka.planner_handover import Handover, new_handover
from stateward.runtime.kafka.tick import TickRule
from stateward.runtime.watermark.partition_times import Times

NOW = 1_800_000_000_000
HOUR = 3_600_000


class Cluster:
    """Two topics of one partition each."""

    def __init__(self, **ends: int) -> None:
        self.ends = ends

    def describe(self, topics: Collection[str]) -> dict[str, tuple[str, int]]:
        return {topic: (f"id-{topic}", 1) for topic in topics}

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        return {0: self.ends[topic]}

    def begin_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        return {0: 0}

    def append_time(self, topic: str) -> int:
        return NOW


@pytest.fixture
def handover(tmp_path: Path) -> Handover:
    made = new_handover(tmp_path)
    made.publish()
    return made


def planner(handover: Handover, cluster: Cluster, *topics: str, mode: str = "auto") -> Planner:
    time = TimeSource(TickRule(mode, 5000, 1000, 60_000), BrokerClock("ticks"), str(handover.file))
    uri = f"file://{handover.file.parent}/checkpoint"
    return Planner(Scan("none:1", dict.fromkeys(topics, 1), time, False, 100, 0, uri), cast(Broker, cluster))


def again(plan: dict[str, Any]) -> dict[str, Any]:
    """The plan as the log of offsets gives it back."""
    found: dict[str, Any] = json.loads(json.dumps(plan))
    return found


def test_the_topic_that_is_behind_holds_the_watermark_back(handover: Handover) -> None:
    cluster = Cluster(a=5, b=5)
    planned = planner(handover, cluster, "a", "b")
    first = again(planned.next(planned.first().to_json(), 100))
    assert plan_from_json(first).offsets == {"a": {0: 5}, "b": {0: 5}}

    # The clock of b's producers is an hour behind, and its records wait.
    handover.publish(times=Times(newest={"a/0": NOW, "b/0": NOW - HOUR}))
    cluster.ends = {"a": 5, "b": 9}
    assert plan_from_json(planned.next(first, 100)).tick_ms == NOW - HOUR
    cluster.ends = {"a": 9, "b": 5}
    assert plan_from_json(planned.next(first, 100)).tick_ms == NOW


def test_a_topic_of_which_nothing_was_read_may_hold_any_time(handover: Handover) -> None:
    cluster = Cluster(a=5, b=0)
    planned = planner(handover, cluster, "a", "b", mode="off")
    first = again(planned.next(planned.first().to_json(), 100))
    handover.publish(times=Times(newest={"a/0": NOW}))
    cluster.ends = {"a": 9, "b": 5}
    assert not plan_from_json(planned.next(first, 100)).ticks


def test_a_topic_that_was_added_is_read_from_its_begin_with_what_was_known_of_the_first(
    handover: Handover,
) -> None:
    cluster = Cluster(a=5, b=7)
    alone = planner(handover, cluster, "a")
    first = again(alone.next(alone.first().to_json(), 100))
    handover.publish(times=Times(newest={0: NOW - 2000}))
    cluster.ends["a"] = 6
    second = again(alone.next(first, 100))
    assert second["$plan"]["newest"] == {"0": NOW - 2000}

    plan = plan_from_json(planner(handover, cluster, "a", "b").next(second, 100))
    assert (plan.offsets, plan.newest) == ({"a": {0: 6}, "b": {0: 7}}, {"a/0": NOW - 2000})
    assert not plan.ticks, "the added topic may hold any time"


def test_a_replay_ends_with_the_last_of_the_topics(handover: Handover) -> None:
    cluster = Cluster(a=5, b=5)
    planned = planner(handover, cluster, "a", "b", mode="record")
    first = again(planned.next(planned.first().to_json(), 100))
    handover.publish(times=Times(newest={"a/0": NOW - HOUR, "b/0": NOW - HOUR}, ended={"a/0": (4, NOW)}))
    assert plan_from_json(planned.next(first, 100)).tick_ms == NOW - HOUR
    handover.publish(times=Times(newest={"b/0": NOW - HOUR}, ended={"a/0": (4, NOW), "b/0": (4, NOW - 9)}))
    assert plan_from_json(planned.next(first, 100)).tick_ms == NOW - 9
