"""The records that a batch reads, and their distribution over tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateward.runtime.checkpoint.offsets import DataLossError, Offsets, Range, limited, ranges, tasks

TOPIC, TICKS = "events", "ticks"


def at(*offsets: int, ticks: int = 0) -> Offsets:
    return {TOPIC: dict(enumerate(offsets)), TICKS: {0: ticks}}


def test_what_is_below_the_limit_is_read_to_the_end() -> None:
    assert limited(at(0, 5), at(10, 6, ticks=3), [TOPIC], 11) == at(10, 6, ticks=3)


def test_a_limit_is_shared_by_what_waits_and_no_partition_starves() -> None:
    assert limited(at(0, 0, 7), at(9000, 1000, 8), [TOPIC], 100) == at(89, 9, 8)


def test_a_limit_holds_for_several_topics_together() -> None:
    start: Offsets = {"a": {0: 0}, "b": {0: 10, 1: 0}}
    ends: Offsets = {"a": {0: 800}, "b": {0: 210, 1: 0}, TICKS: {0: 5}}
    assert limited(start, ends, ["a", "b"], 100) == {"a": {0: 80}, "b": {0: 30, 1: 0}, TICKS: {0: 5}}


def test_ticks_are_never_held_back() -> None:
    assert limited(at(0), at(1000, ticks=5), [TOPIC], 10) == at(10, ticks=5)


def test_an_end_before_the_start_is_lost_data() -> None:
    with pytest.raises(
        DataLossError, match=r"partition 1: expected records from offset 5, found the end at 4"
    ):
        limited(at(0, 5), at(1, 4), [TOPIC], 10)


def test_a_partition_or_a_topic_that_is_gone_is_lost_data() -> None:
    with pytest.raises(DataLossError, match="topic events, partition 1: expected records from offset 5"):
        limited(at(0, 5), at(1), [TOPIC], 10)
    renamed = {**at(3), "other": {0: 0}}
    with pytest.raises(DataLossError, match="or the stream's YAML names another one"):
        limited(renamed, {"other": {0: 9}, TICKS: {0: 0}}, ["other"], 10)


def test_ranges_leave_out_what_is_empty() -> None:
    assert ranges(at(3, 4), at(3, 9, ticks=1)) == [Range(TOPIC, 1, 4, 9), Range(TICKS, 0, 0, 1)]


def test_a_small_batch_is_one_task() -> None:
    wanted = [Range(TOPIC, partition, 0, 10) for partition in range(3)]
    assert tasks(wanted, fewest=100, most_tasks=6) == [wanted]


def test_nothing_to_read_is_no_task() -> None:
    assert tasks([], fewest=100, most_tasks=6) == []


offsets = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 500)), min_size=1, max_size=5)


@given(offsets, st.integers(1, 60), st.integers(1, 8))
def test_tasks_hold_every_record_once_and_are_even(
    spans: list[tuple[int, int]], fewest: int, most_tasks: int
) -> None:
    wanted = [Range(TOPIC, p, begin, begin + size) for p, (begin, size) in enumerate(spans) if size]
    shares = tasks(wanted, fewest=fewest, most_tasks=most_tasks)
    read = [
        (one.partition, offset) for share in shares for one in share for offset in range(one.begin, one.end)
    ]
    assert sorted(read) == [(one.partition, offset) for one in wanted for offset in range(one.begin, one.end)]
    sizes = [sum(one.size for one in share) for share in shares]
    assert len(sizes) <= most_tasks
    assert not sizes or max(sizes) - min(sizes) <= 1
    for share in shares:
        assert len({one.partition for one in share}) == len(share), "a reader has one position per partition"


@given(offsets, st.integers(1, 400))
def test_repeated_limits_reach_the_end(spans: list[tuple[int, int]], most: int) -> None:
    start = at(*(begin for begin, _ in spans))
    ends = at(*(begin + size for begin, size in spans))
    batches = 0
    while start != ends:
        end = limited(start, ends, [TOPIC], most)
        read = sum(one.size for one in ranges(start, end))
        assert 0 < read <= most + len(spans)
        start, batches = end, batches + 1
        assert batches <= 3000
