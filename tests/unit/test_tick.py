"""When a tick is due and what time it carries."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.runtime.broker import LastRecord
from spark_jobs.runtime.status import iso_ms
from spark_jobs.runtime.tick import REPLAY_DISTANCE_MS, TopicView, next_tick
from spark_jobs.runtime.validation import TICK_KEY

NOW = 1_800_000_000_000
LATENESS = 60_000


def end_of_replay(time_ms: int, written_ms: int = NOW) -> LastRecord:
    return LastRecord(TICK_KEY.encode(), json.dumps({"tick": iso_ms(time_ms)}).encode(), written_ms)


def plain(written_ms: int = NOW) -> LastRecord:
    return LastRecord(b"k", b"{}", written_ms)


def view(**changes: Any) -> TopicView:
    known: dict[str, Any] = {
        "committed": {0: 5, 1: 7},
        "ends": {0: 5, 1: 7},
        "newest": {0: plain(), 1: plain()},
        "seen_ms": {},
        "watermark_ms": NOW - 10 * LATENESS,
        "lateness_ms": LATENESS,
        "max_ahead_ms": 3_600_000,
    }
    return TopicView(**{**known, **changes})


def test_a_live_topic_ticks_by_the_wall_clock() -> None:
    assert next_tick("auto", view(), NOW) == NOW
    assert next_tick("wall_clock", view(newest={}), NOW) == NOW


@pytest.mark.parametrize(
    "changes",
    [
        {"committed": {0: 5, 1: 6}},
        {"committed": {0: 5}},
        {"watermark_ms": 0},
        {"watermark_ms": NOW - LATENESS},
        {"committed": {0: 5, 1: 6}, "seen_ms": {0: NOW}},
    ],
    ids=["a record waits", "a partition is unread", "no event yet", "nothing to advance", "slow one unseen"],
)
def test_no_tick_is_due(changes: dict[str, Any]) -> None:
    assert next_tick("wall_clock", view(**changes), NOW) is None


def test_a_replay_does_not_tick_by_the_wall_clock() -> None:
    at_limit = NOW - LATENESS - REPLAY_DISTANCE_MS

    assert next_tick("auto", view(watermark_ms=at_limit), NOW) == NOW
    assert next_tick("auto", view(watermark_ms=at_limit - 1), NOW) is None


def test_a_replay_ends_with_the_earliest_of_the_partitions_times() -> None:
    old = 1_000_000_000_000
    ended = {0: end_of_replay(old + 2000), 1: end_of_replay(old + 1000)}
    seen = view(watermark_ms=old - LATENESS, newest=ended)

    assert next_tick("auto", seen, NOW) == old + 1000
    assert next_tick("record", seen, NOW) == old + 1000


@pytest.mark.parametrize(
    "other",
    [
        plain(),
        None,
        LastRecord(TICK_KEY.encode(), b"not json", NOW),
        LastRecord(TICK_KEY.encode(), b'{"tick": "2020-01-01T00:00:00"}', NOW),
        LastRecord(TICK_KEY.encode(), None, NOW),
    ],
    ids=["an event", "an empty partition", "malformed", "no zone", "no value"],
)
def test_every_partition_has_to_end_with_a_tick(other: LastRecord | None) -> None:
    newest = {0: end_of_replay(NOW), **({} if other is None else {1: other})}

    assert next_tick("record", view(newest=newest), NOW) is None


def test_a_recorded_tick_cannot_carry_the_watermark_far_ahead_of_its_record() -> None:
    far = end_of_replay(4_000_000_000_000, written_ms=NOW)

    assert next_tick("record", view(newest={0: far, 1: far}), NOW) == NOW + 3_600_000


def test_while_records_wait_the_slowest_partition_leads() -> None:
    seen = {0: NOW - 5 * LATENESS, 1: NOW - 3 * LATENESS}

    assert next_tick("off", view(committed={0: 4, 1: 6}, seen_ms=seen), NOW) == seen[0]
    assert next_tick("off", view(committed={0: 5, 1: 6}, seen_ms=seen), NOW) == seen[1]
    assert next_tick("off", view(seen_ms=seen), NOW) == seen[1]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_event_is_late_however_a_backlog_is_cut(data: st.DataObject) -> None:
    """Partitions each out of order by at most the lateness, read at speeds of their own."""
    partitions = {
        p: [
            NOW - LATENESS + place * 20_000 + delay
            for place, delay in enumerate(data.draw(st.lists(st.integers(0, LATENESS), max_size=15)))
        ]
        for p in range(3)
    }
    ends = {p: len(times) for p, times in partitions.items()}
    committed, seen, watermark = dict.fromkeys(partitions, 0), dict[int, int](), 0
    while committed != ends:
        for p, times in partitions.items():
            upto = data.draw(st.integers(committed[p], ends[p]))
            for time_ms in times[committed[p] : upto]:
                assert time_ms >= watermark
                seen[p] = max(time_ms, seen.get(p, 0))
            committed[p] = upto
        state = view(committed=committed, ends=ends, seen_ms=seen, watermark_ms=watermark, newest={})
        tick = next_tick("off", state, NOW)
        watermark = watermark if tick is None else tick - LATENESS

    largest = max((time_ms for times in partitions.values() for time_ms in times), default=None)
    assert watermark == (0 if largest is None else largest - LATENESS)


def test_in_processing_time_the_wall_clock_ticks_whatever_the_topic_does() -> None:
    known = {"lateness_ms": 0, "newest": {}}
    assert next_tick("processing", view(committed={0: 4}, **known), NOW) == NOW
    assert next_tick("processing", view(watermark_ms=0, **known), NOW) == NOW
    assert next_tick("processing", view(watermark_ms=NOW, **known), NOW) is None


def test_ticks_can_be_off() -> None:
    assert next_tick("off", view(), NOW) is None
