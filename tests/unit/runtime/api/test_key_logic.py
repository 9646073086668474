"""The interface of a stream's logic: ids of rows, masked keys, the floor of a key and its next timer."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stateward.runtime.api.key_logic import (
    KeyState,
    Rows,
    advance,
    masked_key,
    next_timer,
    row_id,
    without_key,
)
from stateward.runtime.watermark.admission import Limits, Seen

PARTS = st.lists(st.text("\x00\x01a1", max_size=4), min_size=3, max_size=3).map(tuple)


@given(PARTS, PARTS)
@example(("u", "5", "7\x00e"), ("u\x005", "7", "e"))
def test_other_parts_make_another_identity(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (row_id(*one) == row_id(*other)) == (one == other)


def test_identities_of_plain_texts_stay_what_they_were() -> None:
    assert row_id("u1", 1_700_000_000_000, "e-7") == "30a6b403a091cec46d48159e0eb3ec6e"
    assert row_id("", "") == "6e340b9cffb37a989ca544e6bb780a2c"


@pytest.mark.parametrize(
    ("key", "error", "shown"),
    [
        ("alice", ValueError("alice is unknown"), "ValueError: al***(5) is unknown"),
        ("alic", ValueError("malice"), "ValueError: malice"),
        ("ab", KeyError("ab"), "KeyError: ***(2)"),
    ],
)
def test_an_error_shows_its_key_masked_and_no_other_text(key: str, error: Exception, shown: str) -> None:
    assert without_key(error, key) == shown
    assert masked_key(key) == ("al***(5)" if key == "alice" else f"***({len(key)})")


class Event(NamedTuple):
    """An event, which counts or is without effect."""

    event_id: str
    event_ms: int
    counts: bool = True


class Count(NamedTuple):
    """How many events have counted, and the time of the last one."""

    number: int
    last_ms: int


class Rounds:
    """A row after as many events as the key has letters, or ten after the last event."""

    def apply(self, key: str, state: Count | None, event: Event) -> tuple[Count | None, Rows]:
        if not event.counts:
            return state, []
        number = (state.number if state else 0) + 1
        if number == len(key):
            return None, [(key, event.event_ms)]
        return Count(number, event.event_ms), []

    def deadline(self, state: Count) -> int:
        return state.last_ms + 10

    def expire(self, key: str, state: Count, at_ms: int) -> tuple[None, Rows]:
        return None, [(key, at_ms)]


events_held = st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=19)
QUIET = [(1, False)] * 16


@given(st.sampled_from(["k", "kk", "k" * 99]), st.booleans(), events_held, st.sampled_from([0, 7]))
@example("k", False, [*QUIET, (1, False)], 0)
@example("k" * 99, False, [(1, True)] * 16 + [(12, True), (1, True)], 0)
@example("k" * 99, False, [(1, True)] * 16 + [(9, True), (1, True)], 0)
@example("k", False, QUIET, 0)
def test_the_next_timer_is_the_first_watermark_that_writes_a_row_or_ends_the_state(
    key: str, is_begun: bool, drawn: list[tuple[int, bool]], jitter_ms: int
) -> None:
    """Or that passes the seventeenth held event: the timer is then set again."""
    times = list(accumulate(gap for gap, _ in drawn))
    held = tuple(Event(f"{n}", at, drawn[n][1]) for n, at in enumerate(times))
    kept = KeyState(Count(1, 0) if is_begun and len(key) > 1 else None, held, (Seen("b", 3), Seen("a", 2)))
    limits = Limits(1000, 1000, jitter_ms=jitter_ms)

    def is_something(watermark_ms: int) -> bool:
        turn = advance(Rounds(), key, kept, (), watermark_ms=watermark_ms, limits=limits)
        return bool(turn.rows) or (turn.kept.state is None and not turn.kept.held)

    first = bisect_left(range(400), True, key=is_something)
    expected = min(first, held[16].event_ms + 1) if len(held) > 16 else first
    assert next_timer(Rounds(), key, kept, limits) == (expected if held or kept.state else 3 + 1000 + 1)


def test_the_floor_of_an_early_fold_is_kept_until_the_next_arrival() -> None:
    limits = Limits(lateness_ms=10, max_held=1)
    kept: KeyState[Count, Event] = KeyState()
    for arrival, late in ((Event("a", 101), 0), (Event("b", 102), 0), (Event("c", 100), 1)):
        turn = advance(Rounds(), "kkk", kept, [arrival], watermark_ms=100, limits=limits)
        kept = turn.kept
        assert len(turn.admission.late) == late
    assert kept.floor_ms == 101
    assert next_timer(Rounds(), "kkk", KeyState(), limits) is None
