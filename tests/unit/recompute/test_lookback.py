"""How far back to read, and from when on an answer is exact: each boundary one millisecond to either side."""

from __future__ import annotations

import pytest

from stateward.recompute.lookback import (
    Landed,
    Span,
    anchor,
    first_look,
    landed_since,
    last_needed,
    not_landed,
)

CHAIN = 100


def test_a_span_has_its_begin_and_not_its_end() -> None:
    span = Span(10, 20)
    assert [span.holds(at) for at in (9, 10, 19, 20)] == [False, True, True, False]


def test_what_is_read_reaches_two_chains_back_and_one_beyond() -> None:
    assert first_look(Span(1000, 2000), CHAIN) == 800
    assert last_needed(Span(1000, 2000), CHAIN, 7) == 2107


@pytest.mark.parametrize(
    ("first", "begun", "expected"),
    [(0, {}, None), (5, {0: 5}, None), (4, {0: 5}, None), (6, {0: 5}, 1010), (1, {}, 1010)],
)
def test_all_is_landed_when_it_begins_where_the_stream_did(
    first: int, begun: dict[int, int], expected: int | None
) -> None:
    assert landed_since({0: Landed(first, 50, 1000)}, begun, max_ahead_ms=10) == expected


def test_of_several_partitions_that_are_cut_off_the_last_counts() -> None:
    landed = {0: Landed(3, 9, 1000), 1: Landed(0, 9, 9000), 2: Landed(1, 9, 2000)}
    assert landed_since(landed, {}, max_ahead_ms=10) == 2010


def test_records_that_are_not_landed_yet_are_counted() -> None:
    landed = {0: Landed(0, 10, 1), 1: Landed(0, 10, 1)}
    assert not_landed(landed, {0: 10, 1: 12, 2: 3}) == {1: 2, 2: 3}
    assert not_landed(landed, {0: 9}) == {}


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        pytest.param([1100], 1100, id="silent-from-the-begin-for-the-chain"),
        pytest.param([1099], None, id="one-millisecond-less"),
        pytest.param([5000], 1100, id="silent-for-long"),
        pytest.param([1099, 1199], 1199, id="silent-after-an-event"),
        pytest.param([1099, 1198, 1297], None, id="never-silent"),
        pytest.param([1000, 1050, 1150, 1160, 1400], 1150, id="the-first-silence-counts"),
    ],
)
def test_a_fold_is_exact_after_the_first_silence_of_the_chain(times: list[int], expected: int | None) -> None:
    assert anchor(times, 1000, CHAIN) == expected


def test_when_every_event_is_known_all_is_exact() -> None:
    found = anchor([5, 6, 7], None, CHAIN)
    assert found is not None
    assert found < 5
