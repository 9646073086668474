"""The largest key of a bucket is known from counts of size classes, whichever key grows or ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stateward.runtime.keyed.log_index import Chunks, least_size, size_class


@given(st.integers(0, 2**40))
def test_a_size_is_at_most_an_eighth_above_the_least_of_its_class(size: int) -> None:
    least = least_size(size_class(size))
    assert least <= size <= least * 9 / 8
    assert size_class(least) == size_class(size)
    assert size_class(size + 1) in (size_class(size), size_class(size) + 1)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5_000))))
def test_sizes_follow_every_change(changes: list[tuple[int, int]]) -> None:
    chunks, sizes = Chunks(), dict.fromkeys(range(10), 0)
    for key, size in changes:
        chunks.resize(sizes[key], size)
        sizes[key] = size
        assert chunks.bytes == sum(sizes.values())
        assert chunks.largest == least_size(size_class(max(sizes.values())))
        assert sum(chunks.classes.values()) == sum(map(bool, sizes.values()))
