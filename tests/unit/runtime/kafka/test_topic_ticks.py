"""Ticks of a stream in which each topic has a watermark, and which of the watermarks counts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateward.runtime.checkpoint.batch_plan import PLAN, Plan, TopicTick, plan_from_json
from stateward.runtime.kafka.tick import TickRule, View, next_plan, next_plan_by_topic
from stateward.runtime.watermark.partition_times import Times

NOW = 1_800_000_000_000
SECOND, HOUR = 1000, 3_600_000
LATENESS = {"a": 60 * SECOND, "b": 2 * HOUR}
RULE = TickRule("auto", 5000, 1000, 60 * SECOND)
RULES = {
    topic: replace(RULE, delay_ms=lateness, asked_ms=lateness - RULE.delay_ms)
    for topic, lateness in LATENESS.items()
}
READ: dict[Any, int] = {"a/0": 5, "b/0": 5}
TIMES = Times(newest={"a/0": NOW - SECOND, "b/0": NOW - HOUR}, lag_ms=1000)


def planned(
    view: View, before: Plan | None = None, policy: str = "min", mode: str = "off", now_ms: int = NOW
) -> Plan:
    rules = {topic: replace(rule, mode=mode) for topic, rule in RULES.items()}
    plan = next_plan_by_topic(rules, policy, before or Plan({"a": {0: 5}, "b": {0: 5}}), view, now_ms)
    return plan_from_json(json.loads(json.dumps(plan.to_json())))


def watermark_ms(plan: Plan, policy: str) -> int:
    """What Spark makes of the ticks."""
    reached = [
        0 if tick.tick_ms is None else tick.tick_ms - LATENESS[topic]
        for topic, tick in plan.topic_ticks.items()
    ]
    return min(reached) if policy == "min" else max(reached)


@pytest.mark.parametrize(("policy", "behind"), [("min", "b"), ("max", "a")])
def test_each_topic_ticks_by_its_own_events_and_the_policy_chooses(policy: str, behind: str) -> None:
    plan = planned(View(READ, READ, times=TIMES), policy=policy)

    assert {topic: tick.tick_ms for topic, tick in plan.topic_ticks.items()} == {
        "a": NOW - SECOND,
        "b": NOW - HOUR,
    }
    assert plan.tick_ms is not None
    assert plan.tick_ms - max(LATENESS.values()) == watermark_ms(plan, policy)
    assert watermark_ms(plan, policy) == plan.topic_ticks[behind].tick_ms - LATENESS[behind]  # type: ignore[operator]


def test_all_ticks_are_sent_again_when_one_advances() -> None:
    first = planned(View(READ, READ, times=TIMES))
    assert not planned(View(READ, READ, times=TIMES), first).ticks
    after = planned(View(READ, READ, times=Times(newest={"a/0": NOW})), first)
    assert (after.ticks, after.topic_ticks) == (True, {"a": TopicTick(NOW, 0), "b": TopicTick(NOW - HOUR, 0)})


def test_a_topic_with_records_of_which_none_was_read_holds_the_smallest_watermark_back() -> None:
    view = View({**READ, "b/0": 0}, READ, frozenset({"b/0"}), Times(newest={"a/0": NOW}))
    plan = planned(view)
    assert (plan.topic_ticks["b"], plan.tick_ms) == (TopicTick(), None)
    assert planned(view, policy="max").tick_ms is not None


def test_the_clock_ticks_for_an_empty_topic_once_the_other_has_begun() -> None:
    quiet = View({**READ, "b/0": 0}, {**READ, "b/0": 0}, times=Times())
    assert not planned(quiet, mode="wall_clock").ticks, "nothing has begun"
    begun = replace(quiet, times=Times(newest={"a/0": NOW - SECOND}, lag_ms=1000))
    assert planned(begun, mode="wall_clock").topic_ticks == {
        "a": TopicTick(NOW, NOW),
        "b": TopicTick(NOW, NOW),
    }
    waiting = replace(begun, ends={**READ, "b/0": 3}, unread=frozenset({"b/0"}))
    assert planned(waiting, mode="wall_clock").topic_ticks["b"] == TopicTick()


def test_a_tick_that_is_asked_for_gives_every_topic_the_same_watermark() -> None:
    view = View(READ, READ, times=TIMES, asked_ms=NOW + 9 * HOUR + RULE.delay_ms)
    plan = planned(view)
    assert watermark_ms(plan, "min") == watermark_ms(plan, "max") == NOW + 9 * HOUR


def test_a_plan_with_one_watermark_is_written_as_before() -> None:
    plan = next_plan(RULE, Plan({"a": {0: 5}}), View({0: 5}, {0: 5}, times=Times(newest={0: NOW})), NOW)
    assert "topic_ticks" not in plan.to_json()[PLAN]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_with_the_smallest_no_event_of_either_topic_is_late_however_a_backlog_is_cut(
    data: st.DataObject,
) -> None:
    """Two topics whose clocks differ by an hour, each out of order by at most its lateness."""
    logs = {
        name: [
            NOW - apart - 2 * HOUR + place * 20_000 + data.draw(st.integers(0, LATENESS[name[0]]))
            for place in range(data.draw(st.integers(0, 10)))
        ]
        for name, apart in (("a/0", 0), ("a/1", 0), ("b/0", HOUR))
    }
    ends: dict[Any, int] = {name: len(log) for name, log in logs.items()}
    begin: dict[Any, int] = dict.fromkeys(logs, 0)
    newest: dict[Any, int] = {}
    watermark, plan = 0, Plan({"a": {}, "b": {}})
    while begin != ends:
        for name, log in logs.items():
            upto = data.draw(st.integers(begin[name], ends[name]))
            assert all(at >= watermark for at in log[begin[name] : upto])
            newest |= {name: max(log[:upto])} if upto else {}
            begin[name] = upto
        unread = frozenset(name for name in logs if not begin[name])
        plan = planned(
            View(dict(begin), ends, unread, Times(newest=dict(newest))), plan, now_ms=NOW + 9 * HOUR
        )
        watermark = max(watermark, watermark_ms(plan, "min") if plan.ticks else 0)
