"""Partitions of several topics: their slots, and their names in documents."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from stateward.runtime.checkpoint.batch_plan import PLAN, Plan, plan_from_json
from stateward.runtime.watermark.partition_times import Times, merge_times, times_from_json
from stateward.runtime.watermark.topic_partitions import Topics, in_order, partition_name

ONE, TWO = Topics(("a",)), Topics(("a", "b-2.c_d"))
PLACES = st.tuples(st.sampled_from(TWO.names), st.integers(0, 100_000))


@given(st.sets(PLACES))
def test_a_slot_and_a_name_are_those_of_one_partition(places: set[tuple[str, int]]) -> None:
    slots = {TWO.slot(*place): place for place in places}
    names = {TWO.name(*place): place for place in places}

    assert len(slots) == len(names) == len(places)
    assert {slot: TWO.place(slot) for slot in slots} == slots
    assert {TWO.named(slot) for slot in slots} == set(names)
    assert {partition_name(str(name)) for name in names} == set(names)
    assert all(-(1 << 31) <= slot < 1 << 31 for slot in slots), "it is an int of Spark"


@given(st.integers(0, 100_000))
def test_with_one_topic_all_of_them_are_the_number(partition: int) -> None:
    assert (ONE.slot("a", partition), ONE.name("a", partition)) == (partition, partition)
    assert partition_name(str(partition)) == partition


def test_plans_and_times_of_one_topic_are_written_as_before() -> None:
    plan = Plan({"a": {0: 7, 10: 9, 2: 1}}, newest={0: 5}, silent=frozenset({10, 2}), ended={2: (8, 6)})
    found = plan.to_json()[PLAN]

    assert (found["newest"], found["silent"], found["ended"]) == ({"0": 5}, [2, 10], {"2": [8, 6]})
    assert plan_from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_those_of_several_topics_are_read_as_they_were_written() -> None:
    plan = Plan(
        {"a": {0: 7}, "b": {0: 9}},
        newest={"a/0": 5, "b/0": 6},
        ahead={"b/0": (9,)},
        silent=frozenset({"b/1", "a/1"}),
        seen={"a/0": 3},
        ended={"b/0": (8, 6)},
    )
    assert plan_from_json(json.loads(json.dumps(plan.to_json()))) == plan
    times = Times(newest={"a/0": 5}, silent=frozenset({"b/0"}), seen={"a/0": 3}, records=2)
    assert times_from_json(json.loads(json.dumps(times.to_json()))) == times
    both = merge_times([times, Times(newest={"b/0": 1, "a/0": 4})])
    assert (both.newest, both.silent) == ({"a/0": 5, "b/0": 1}, frozenset())


def test_a_stream_that_gets_or_loses_a_topic_keeps_what_it_knows_of_the_others() -> None:
    alone = Plan({"a": {0: 7}}, newest={0: 5}, silent=frozenset({1}), ended={0: (3, 4)})
    joined = alone.of_topics(TWO)
    assert joined == Plan({"a": {0: 7}}, newest={"a/0": 5}, silent=frozenset({"a/1"}), ended={"a/0": (3, 4)})

    both = Plan({"a": {0: 7}, "b-2.c_d": {0: 1}}, newest={"a/0": 5, "b-2.c_d/0": 9}, seen={"b-2.c_d/1": 2})
    assert both.of_topics(TWO) == both
    left = both.of_topics(ONE)
    assert (left.newest, left.seen) == ({0: 5}, {})
    times = Times(newest={"a/0": 5, "b-2.c_d/0": 9}, silent=frozenset({"a/1"}))
    assert times.of_topics(ONE, both.offsets).newest == {0: 5}
    assert Times(newest={0: 5}).of_topics(TWO, ["a"]).newest == {"a/0": 5}


def test_names_are_in_the_order_of_their_numbers() -> None:
    assert in_order([10, 9, 2]) == [2, 9, 10]
    assert in_order(["b/0", "a/1"]) == ["a/1", "b/0"]


def test_values_of_topics_that_are_not_read_are_left_out() -> None:
    parts = {"a": {0: 7}, "b-2.c_d": {1: 8}, "stateward-ticks-x": {0: 3}}
    assert TWO.by_name(parts) == {"a/0": 7, "b-2.c_d/1": 8}
    assert TWO.by_slot(parts) == {0: 7, TWO.slot("b-2.c_d", 1): 8}
