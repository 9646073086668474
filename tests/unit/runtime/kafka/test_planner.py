"""Plans of batches: their ends and times, from the state of the cluster and the driver's data."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from stateward.contract.stream_settings import Lookup
from stateward.runtime.checkpoint.batch_plan import plan_from_json
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.offsets import DataLossError
from stateward.runtime.delta.lookup_tables import LookupInvalidError, LookupTable, newest
from stateward.runtime.kafka.broker import Broker
from stateward.runtime.kafka.broker_clock import BrokerClock
from stateward.runtime.kafka.planner import Planner, Scan, TimeSource
from stateward.runtime.kafka.planner_handover import new_handover
from stateward.runtime.kafka.tick import TickRule
from stateward.runtime.watermark.partition_times import Times

NOW = 1_800_000_000_000
LATENESS = 60_000
RULE = TickRule("auto", 5000, 1000, LATENESS)


class Merchant(NamedTuple):
    """What is taken of a row."""

    category: str | None


LOOKUP = Lookup("merchants", "id", Merchant)


@dataclass
class Cluster:
    """One topic, and a clock."""

    ends: dict[int, int]
    id: str = "first"
    now_ms: int = NOW
    asked: int = 0

    def describe(self, topics: Collection[str]) -> dict[str, tuple[str, int]]:
        return {"t": (self.id, len(self.ends))}

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        return dict(self.ends)

    def begin_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        return dict.fromkeys(range(partitions), 0)

    def append_time(self, topic: str) -> int:
        assert topic == "ticks"
        self.asked += 1
        return self.now_ms


@dataclass
class Planning:
    """A planner with its driver's data."""

    folder: Path
    cluster: Cluster = field(default_factory=lambda: Cluster({0: 0, 1: 0}))
    most: int = 100
    lookups: tuple[LookupTable, ...] = ()

    def __post_init__(self) -> None:
        self.handover = new_handover(self.folder)
        self.handover.publish()
        self.checkpoint = Checkpoint(f"file://{self.folder}/checkpoint")
        self.start()

    def start(self) -> None:
        """Another start of the query."""
        clock = BrokerClock("ticks", monotonic=lambda: (self.cluster.now_ms - NOW) / 1000)
        time = TimeSource(RULE, clock, str(self.handover.file))
        uri = f"file://{self.folder}/checkpoint"
        scan = Scan("none:1", {"t": 2}, time, False, self.most, 0, uri, lookups=self.lookups)
        self.planner = Planner(scan, cast(Broker, self.cluster))

    def next(self, start: dict[str, Any]) -> dict[str, Any]:
        return self.planner.next(json.loads(json.dumps(start)), self.most)


@pytest.fixture
def planning(tmp_path: Path) -> Planning:
    return Planning(tmp_path)


def test_with_nothing_to_do_the_plan_is_the_one_before(planning: Planning) -> None:
    first = planning.planner.first().to_json()
    assert planning.next(first) == first
    planning.cluster.ends = {0: 5, 1: 0}
    after = planning.next(first)
    plan = plan_from_json(after)
    assert (plan.offsets, plan.now_ms, plan.ids) == ({"t": {0: 5, 1: 0}}, NOW, {"t": "first"})
    assert planning.next(after) == after


def test_what_a_batch_has_shown_is_in_the_next_plan_with_its_tick(planning: Planning) -> None:
    planning.cluster.ends = {0: 5, 1: 0}
    after = planning.next(planning.planner.first().to_json())
    planning.handover.publish(times=Times(newest={0: NOW - 1000}, lag_ms=1000))
    planning.cluster.now_ms += 10
    plan = plan_from_json(planning.next(after))
    assert (plan.ticks, plan.tick_ms, plan.newest) == (True, NOW + 10, {0: NOW - 1000})


def test_the_broker_is_asked_for_the_time_now_and_then_and_its_time_goes_on(planning: Planning) -> None:
    first = planning.planner.first().to_json()
    for _ in range(10):
        planning.cluster.now_ms += 1000
        planning.cluster.ends[0] += 1
        assert plan_from_json(planning.next(first)).now_ms == planning.cluster.now_ms
    assert planning.cluster.asked == 2


def test_a_topic_that_was_made_again_is_not_read_on_from_the_middle(planning: Planning) -> None:
    planning.cluster.ends = {0: 5, 1: 0}
    after = planning.next(planning.planner.first().to_json())
    planning.cluster.id, planning.cluster.ends = "second", {0: 900, 1: 900}
    planning.start()
    with pytest.raises(DataLossError, match=r"with the id first, found second.*state skip"):
        planning.next(after)


def test_a_partition_that_was_added_is_read_from_its_begin_and_there_is_no_tick_meanwhile(
    planning: Planning,
) -> None:
    planning.cluster.ends = {0: 5, 1: 5}
    after = planning.next(planning.planner.first().to_json())
    planning.handover.publish(times=Times(newest={0: NOW, 1: NOW}))
    planning.cluster.ends[2] = 7
    plan = plan_from_json(planning.next(after))
    assert (plan.offsets, plan.ticks) == ({"t": {0: 5, 1: 5, 2: 7}}, False)
    assert plan_from_json(planning.next(plan.to_json())).ticks, "added partitions are read"


def test_a_batch_has_no_more_bytes_than_a_task_can_hold(planning: Planning) -> None:
    planning.cluster.ends = {0: 5, 1: 5}
    after = planning.next(planning.planner.first().to_json())
    planning.handover.publish(times=Times(records=10, size=10 * 51_200_000))
    planning.cluster.ends = {0: 500, 1: 500}
    plan = plan_from_json(planning.next(after))
    assert plan.record_bytes == 51_200_000
    assert sum(plan.offsets["t"].values()) - 10 == 10


def test_only_a_batch_with_records_takes_the_newest_versions_of_lookups(planning: Planning) -> None:
    uri = f"file://{planning.folder}/merchants"
    source = LookupTable("s", LOOKUP, uri, "id", ("category",))
    planning.lookups = (source,)
    planning.start()
    planning.cluster.ends = {0: 5, 1: 0}
    with pytest.raises(LookupInvalidError, match="expected a Delta table at"):
        planning.next(planning.planner.first().to_json())
    for _ in range(2):
        write_deltalake(uri, pa.table({"id": ["a"], "category": ["x"]}), mode="append")
    after = planning.next(planning.planner.first().to_json())
    assert plan_from_json(after).lookups == {"merchants": newest(source)}

    before = newest(source)
    write_deltalake(uri, pa.table({"id": ["b"], "category": ["y"]}), mode="append")
    planning.handover.publish(times=Times(newest={0: NOW - 1000}, lag_ms=1000))
    ticking = planning.next(after)
    assert (plan_from_json(ticking).ticks, plan_from_json(ticking).lookups) == (True, {"merchants": before})
    planning.cluster.ends = {0: 6, 1: 0}
    plan = plan_from_json(planning.next(ticking))
    assert plan.lookups == {"merchants": before._replace(version=2)}


def planned_by_an_earlier_release(planning: Planning, watermark_ms: int, planned_ms: int) -> dict[str, Any]:
    offsets = {"t": {"0": 5, "1": 5}, "stateward-ticks-t": {"0": 3}}
    head = {"batchWatermarkMs": watermark_ms, "batchTimestampMs": planned_ms}
    folder = planning.folder / "checkpoint" / "offsets"
    folder.mkdir(parents=True)
    (folder / "0").write_text("\n".join(["v1", json.dumps(head), json.dumps(offsets)]))
    planning.checkpoint.write_initial_offsets({"t": {0: 0, 1: 0}, "stateward-ticks-t": {0: 0}})
    planning.cluster.ends = {0: 5, 1: 5}
    return offsets


def test_a_plan_of_an_earlier_release_is_gone_on_from(planning: Planning) -> None:
    offsets = planned_by_an_earlier_release(planning, NOW - LATENESS - 1000, NOW - 900)
    plan = plan_from_json(planning.next(offsets))
    assert (plan.offsets, plan.tick_ms, plan.replay) == ({"t": {0: 5, 1: 5}}, NOW, False)


def test_a_replay_of_an_earlier_release_stays_one(planning: Planning) -> None:
    offsets = planned_by_an_earlier_release(planning, 1_000_000_000_000, NOW - 900)
    assert planning.next(offsets) == offsets, "no tick, and nothing else to do"
    planning.cluster.ends = {0: 6, 1: 5}
    assert plan_from_json(planning.next(offsets)).replay
