"""Which chunks of a log are cleaned and merged: how many there are, and how often an entry is written."""

from __future__ import annotations

from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from stateward.runtime.keyed.log_index import _MOST_CHUNKS, CHUNKS_PER_CALL, MOST_SMALL, Chunks

ENTRIES_PER_CALL = 2000


def append(index: Chunks, entries: int, bucket: int = 0) -> int:
    """Append a chunk whose keys no other chunk has, as a call does; returns the entries written."""
    index.bytes += 200 * entries
    live = sum(index.live) + entries
    moved = cleaned = 0
    while index.entries and cleaned < CHUNKS_PER_CALL and index.has_to_clean(entries + moved, live, moved):
        moved, cleaned = moved + index.live[0], cleaned + 1
        index.drop_oldest()
    merged = index.to_merge(entries + moved, live, bucket)
    written = entries + moved + sum(index.entries[len(index.entries) - merged :])
    index.append(written, written, merged)
    return written


def most(index: Chunks) -> int:
    return _MOST_CHUNKS + 1 + 4 * sum(index.entries) // ENTRIES_PER_CALL


def newest_small(index: Chunks) -> int:
    return len(list(takewhile(lambda entries: 2 * entries < ENTRIES_PER_CALL, reversed(index.entries))))


@given(st.lists(st.integers(1, 2500), max_size=300), st.integers(0, 31))
def test_chunks_are_as_many_as_their_entries_need(sizes: list[int], bucket: int) -> None:
    index = Chunks()
    for place, size in enumerate(sizes):
        written = append(index, size, bucket)
        assert written <= size + 3 * ENTRIES_PER_CALL
        assert newest_small(index) <= MOST_SMALL
        assert sum(index.entries) == sum(sizes[: place + 1]), "nothing is lost"
        assert index.begins == sorted(set(index.begins)) and index.begins[-1] < index.next_write
        assert len(index.entries) == len(index.begins) == len(index.live) <= most(index)


def test_an_entry_is_written_few_times_until_its_chunk_is_large() -> None:
    for size in (1, 2, 3, 20):
        index, batches = Chunks(), 60_000 // size
        written = sum(append(index, size) for _ in range(batches))
        assert written <= 4.5 * size * batches
        assert len(index.entries) <= MOST_SMALL + 60_000 // 1000
    assert append(Chunks(), 20) == 20, "few chunks are left as they are"


def test_buckets_merge_in_different_batches() -> None:
    first_merges = set()
    for bucket in range(16):
        index, batches = Chunks(), 1
        while append(index, 1, bucket) == 1:
            batches += 1
        first_merges.add(batches)
    assert len(first_merges) == 16


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 10)), min_size=1, max_size=200),
    st.lists(st.tuples(st.integers(0), st.booleans()), max_size=100),
)
def test_live_states_are_counted_where_their_write_is(
    appended: list[tuple[int, int]], outdated: list[tuple[int, bool]]
) -> None:
    index, states = Chunks(), []
    for entries, _ in appended:
        states += [index.next_write] * entries
        append(index, entries)
    for choice, _ in outdated:
        if states:
            index.outdate(states.pop(choice % len(states)))
    ends = [*index.begins[1:], index.next_write]
    for begin, end, live in zip(index.begins, ends, index.live, strict=True):
        assert live == sum(begin <= write < end for write in states)
    index.outdate(index.next_write)
    assert sum(index.live) == len(states), "a state of this call is not counted yet"


def test_large_states_are_merged_in_smaller_chunks() -> None:
    index = Chunks()
    for _ in range(500):
        live = sum(index.live) + 1
        index.bytes += 100_000
        merged = index.to_merge(1, live, 0)
        entries = 1 + sum(index.entries[len(index.entries) - merged :])
        assert entries * 100_000 <= 1 << 20
        index.append(entries, entries, merged)
    assert len(index.entries) <= MOST_SMALL + 500 / 5


def test_a_log_of_many_chunks_is_cleaned_until_it_is_short() -> None:
    index = Chunks.of("stamp", "count", [1] * 5000)
    index.live, calls = [1] * 5000, 0
    index.bytes = 5000 * 200
    while len(index.entries) > most(index):
        append(index, 1)
        calls += 1
    assert calls < 5000 / CHUNKS_PER_CALL * 1.2
    assert sum(index.entries) == 5000 + calls
