"""When a tick is due, and its time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateward.runtime.checkpoint.batch_plan import Plan
from stateward.runtime.kafka.tick import REPLAY_DISTANCE_MS, TickRule, View, next_plan
from stateward.runtime.watermark.due_times import DueTimes
from stateward.runtime.watermark.partition_times import Times
from stateward.runtime.watermark.topic_partitions import Partition

NOW = 1_800_000_000_000
LATENESS = 60_000
HOUR = 3_600_000
MODES = ("auto", "wall_clock", "record", "off", "processing")
RULES = {mode: TickRule(mode, 5000, 1000, LATENESS) for mode in MODES}


def tick(mode: str, view: View, plan: Plan, now_ms: int = NOW) -> int | None:
    found = next_plan(RULES[mode], plan, view, now_ms)
    return found.tick_ms if found.ticks else None


def quiet(**changes: Any) -> View:
    known: dict[str, Any] = {"begin": {0: 5, 1: 7}, "ends": {0: 5, 1: 7}}
    return View(**{**known, **changes})


BEGUN = Plan({}, tick_ms=NOW - 10 * LATENESS)


@pytest.mark.parametrize("mode", ["auto", "wall_clock"])
def test_a_live_topic_ticks_by_the_brokers_time(mode: str) -> None:
    found = next_plan(RULES[mode], BEGUN, quiet(), NOW)
    assert (found.ticks, found.tick_ms, found.clock_ms, found.now_ms) == (True, NOW, NOW, NOW)


@pytest.mark.parametrize(
    ("timer_ms", "since_ms", "ticks"),
    [
        (NOW - LATENESS, 1000, True),
        (NOW - LATENESS, 999, False),
        # Not yet due; an idle topic ticks once a minute.
        (NOW - LATENESS + 1, 59_999, False),
        (NOW - LATENESS + 1, 60_000, True),
        # At, and before, the watermark of the last tick.
        (NOW - 11 * LATENESS, 1000, True),
        (NOW - 11 * LATENESS - 1, 59_999, False),
        (None, 5000, True),
        (None, 4999, False),
    ],
)
@pytest.mark.parametrize("mode", ["wall_clock", "processing"])
def test_the_clock_ticks_for_timers_that_are_or_may_be_due_and_when_idle(
    mode: str, timer_ms: int | None, since_ms: int, ticks: bool
) -> None:
    due = DueTimes((), known=False) if timer_ms is None else DueTimes((timer_ms,), known=True)
    plan = replace(BEGUN, clock_ms=NOW - since_ms)
    assert tick(mode, quiet(due=due), plan) == (NOW if ticks else None)
    waiting = quiet(due=due, begin={0: 5, 1: 6})
    follows = tick(mode, waiting, replace(plan, newest={0: NOW - 1}))
    assert follows == (NOW - 1 if mode == "wall_clock" else NOW if ticks else None)


def test_a_plan_takes_over_what_the_last_batch_found_and_else_keeps_what_was_known() -> None:
    came = Times(seen={1: 6}, append_time=False, records=3, size=11, lag_ms=REPLAY_DISTANCE_MS)
    before = replace(BEGUN, seen={0: 5}, append_time=True, record_bytes=7)
    found, kept = (next_plan(RULES["off"], before, quiet(times=times), NOW) for times in (came, Times()))
    assert (found.seen, found.append_time, found.record_bytes) == ({0: 5, 1: 6}, False, 3)
    assert (kept.seen, kept.append_time, kept.record_bytes) == ({0: 5}, True, 7)
    assert isinstance(found.record_bytes, int) and not found.replay


@pytest.mark.parametrize(
    ("view", "plan"),
    [
        ({"begin": {0: 5, 1: 6}}, BEGUN),
        ({"begin": {0: 5}}, BEGUN),
        ({}, Plan({})),
        ({}, replace(BEGUN, tick_ms=NOW)),
        ({"begin": {0: 5, 1: 6}, "unread": frozenset({1})}, replace(BEGUN, newest={0: NOW})),
    ],
    ids=[
        "a record waits",
        "a partition is unread",
        "no event yet",
        "nothing to advance",
        "slow one unseen",
    ],
)
def test_no_tick_is_due(view: dict[str, Any], plan: Plan) -> None:
    assert tick("wall_clock", quiet(**view), plan) is None


def test_a_replay_does_not_tick_by_the_clock_and_silence_is_none() -> None:
    came = Times(newest={0: NOW - 9 * HOUR}, lag_ms=REPLAY_DISTANCE_MS + 1)
    before = replace(BEGUN, tick_ms=NOW - 9 * HOUR)
    found = next_plan(RULES["auto"], before, quiet(times=came), NOW)
    assert (found.replay, found.ticks) == (True, False)
    assert next_plan(RULES["auto"], found, quiet(), NOW + HOUR).ticks is False, "it is kept"

    live = Times(newest={0: NOW - 1000}, lag_ms=1000)
    found = next_plan(RULES["auto"], found, quiet(times=live), NOW)
    assert found.replay is False
    later = next_plan(RULES["auto"], found, quiet(), NOW + 3 * HOUR)
    assert (later.tick_ms, later.replay) == (NOW + 3 * HOUR, False), "three idle hours are no replay"


def test_a_replay_ends_with_the_earliest_of_the_partitions_times() -> None:
    old = 1_000_000_000_000
    ended = Times(ended={0: (4, old + 2000), 1: (6, old + 1000)})
    plan = Plan({}, tick_ms=old, replay=True)

    assert tick("auto", quiet(times=ended), plan) == old + 1000
    assert tick("record", quiet(times=ended), plan) == old + 1000


@pytest.mark.parametrize("ended", [{0: (4, NOW)}, {0: (4, NOW), 1: (5, NOW)}], ids=["one", "not the last"])
def test_every_partition_has_to_end_with_a_tick(ended: dict[Partition, tuple[int, int]]) -> None:
    assert tick("record", quiet(times=Times(ended=ended)), BEGUN) is None


def test_ends_of_a_replay_that_come_in_several_batches_count_together() -> None:
    first = next_plan(RULES["record"], BEGUN, quiet(times=Times(ended={0: (4, NOW - 5)})), NOW)
    assert not first.ticks
    assert tick("record", quiet(times=Times(ended={1: (6, NOW - 7)})), first) == NOW - 7


def test_no_tick_passes_the_brokers_time() -> None:
    far = Times(ended={0: (4, NOW + 9 * HOUR), 1: (6, NOW + 9 * HOUR)})
    assert tick("record", quiet(times=far), BEGUN) == NOW


def test_an_event_that_is_ahead_moves_nobody_until_its_time_comes() -> None:
    ahead = Times(newest={1: NOW - 1000}, ahead={0: (NOW + 59 * 60_000,)})
    found = next_plan(RULES["off"], BEGUN, quiet(times=ahead), NOW)
    assert (found.tick_ms, found.ahead) == (NOW - 1000, {0: (NOW + 59 * 60_000,)})
    found = next_plan(RULES["off"], found, quiet(), NOW + 58 * 60_000)
    assert not found.ticks
    found = next_plan(RULES["off"], found, quiet(), NOW + 59 * 60_000)
    assert (found.tick_ms, found.ahead) == (NOW + 59 * 60_000, {})


def test_a_partition_of_nothing_but_dead_letters_holds_nobody_back() -> None:
    """Its records wait at every poll."""
    dead = Times(newest={0: NOW - 1000}, silent=frozenset({1}))
    view = quiet(begin={0: 5, 1: 3}, times=dead)
    assert tick("off", view, replace(BEGUN, newest={1: NOW - 9 * HOUR})) == NOW - 1000
    assert tick("auto", view, BEGUN) == NOW, "time advances although the partition is never idle"


def test_while_records_wait_the_slowest_partition_leads() -> None:
    plan = replace(BEGUN, newest={0: NOW - 5 * LATENESS, 1: NOW - 3 * LATENESS})

    found = next_plan(RULES["off"], plan, quiet(begin={0: 4, 1: 6}), NOW)
    assert (found.tick_ms, found.clock_ms) == (plan.newest[0], 0), "this tick is not the clock's"
    assert tick("off", quiet(begin={0: 5, 1: 6}), plan) == plan.newest[1]
    assert tick("off", quiet(), plan) == plan.newest[1]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_event_is_late_however_a_backlog_is_cut(data: st.DataObject) -> None:
    """Partitions, each out of order by at most the lateness, read at different speeds."""
    partitions = {
        p: [
            NOW - LATENESS + place * 20_000 + delay
            for place, delay in enumerate(data.draw(st.lists(st.integers(0, LATENESS), max_size=15)))
        ]
        for p in range(3)
    }
    ends: dict[Any, int] = {p: len(times) for p, times in partitions.items()}
    begin: dict[Any, int] = dict.fromkeys(partitions, 0)
    newest, watermark, plan = dict[Partition, int](), 0, Plan({})
    while begin != ends:
        for p, times in partitions.items():
            upto = data.draw(st.integers(begin[p], ends[p]))
            for time_ms in times[begin[p] : upto]:
                assert time_ms >= watermark
                newest[p] = max(time_ms, newest.get(p, 0))
            begin[p] = upto
        unread = frozenset(p for p in partitions if not begin[p])
        view = View(dict(begin), ends, unread, Times(newest=newest))
        plan = next_plan(RULES["off"], plan, view, NOW + HOUR)
        watermark = 0 if plan.tick_ms is None else plan.tick_ms - LATENESS

    largest = max((time_ms for times in partitions.values() for time_ms in times), default=None)
    assert watermark == (0 if largest is None else largest - LATENESS)


def test_ticks_can_be_off() -> None:
    assert tick("off", quiet(), BEGUN) is None
