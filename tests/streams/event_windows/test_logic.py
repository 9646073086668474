"""The oracle of ``event_windows``: boundaries to the millisecond, exact sums, duplicates."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.event_windows.logic import all_rows, ordered_rows, starts
from spark_jobs.event_windows.model import SlidingWindow, TumblingWindow, UserEvent
from stateward.runtime.api.key_logic import row_id

MINUTE_MS = 60_000
SIZE_MS = 5 * MINUTE_MS
# A multiple of five minutes.
T0 = 1_767_225_600_000


def event(
    number: int, at_ms: int, value: str | None = None, *, user: str = "u", kind: str = "v"
) -> UserEvent:
    return UserEvent(f"e{number}", T0 + at_ms, user, kind, None if value is None else Decimal(value))


def rows(*events: UserEvent, slide_ms: int = MINUTE_MS) -> tuple[list[SlidingWindow], list[TumblingWindow]]:
    found = all_rows(events, size_ms=SIZE_MS, slide_ms=slide_ms)
    for row in found:
        assert row.end_ms == row.start_ms + SIZE_MS
        assert row.window_id == row_id(row.user_id, row.start_ms, row.end_ms)
    sliding = [row for row in found if isinstance(row, SlidingWindow)]
    return sorted(sliding, key=lambda row: row.start_ms), sorted(
        (row for row in found if isinstance(row, TumblingWindow)), key=lambda row: row.start_ms
    )


@pytest.mark.parametrize(
    ("at_ms", "first", "last"),
    [
        pytest.param(-1, -5, -1, id="a millisecond before a start"),
        pytest.param(0, -4, 0, id="at a start, which is the end of another"),
        pytest.param(1, -4, 0, id="a millisecond after it"),
    ],
)
def test_an_event_is_in_the_windows_from_their_start_up_to_their_end(
    at_ms: int, first: int, last: int
) -> None:
    found = sorted(starts(T0 + at_ms, SIZE_MS, MINUTE_MS))
    assert found == [T0 + minute * MINUTE_MS for minute in range(first, last + 1)]


@pytest.mark.parametrize(
    ("at_ms", "start_ms"), [(-1, -SIZE_MS), (0, 0), (SIZE_MS - 1, 0), (SIZE_MS, SIZE_MS)]
)
def test_an_event_is_in_one_tumbling_window(at_ms: int, start_ms: int) -> None:
    _, (row,) = rows(event(1, at_ms))
    assert (row.start_ms, row.end_ms) == (T0 + start_ms, T0 + start_ms + SIZE_MS)


def test_a_slide_that_does_not_divide_the_size_gives_windows_of_the_same_length() -> None:
    found = sorted(starts(T0, SIZE_MS, 2 * MINUTE_MS))
    assert found == [T0 - 4 * MINUTE_MS, T0 - 2 * MINUTE_MS, T0]


def test_sums_are_exact_and_a_missing_value_counts_as_an_event_only() -> None:
    sliding, tumbling = rows(
        event(1, 0, "0.1"), event(2, 1, "0.2"), event(3, 2, "-0.3"), event(4, 3, None), event(5, 4, "1e11")
    )
    assert {(row.event_count, row.value_sum, row.value_min, row.value_max) for row in sliding} == {
        (5, Decimal("100000000000"), Decimal("-0.3"), Decimal("1e11"))
    }
    assert len(sliding) == 5
    assert [row.event_count for row in tumbling] == [5]


def test_without_any_value_there_is_no_sum() -> None:
    sliding, _ = rows(event(1, 0))
    assert {(row.value_sum, row.value_min, row.value_max) for row in sliding} == {(None, None, None)}


def test_types_are_there_once_and_sorted_and_users_apart() -> None:
    _, tumbling = rows(
        event(1, 0, kind="view"), event(2, 1, kind="buy"), event(3, 2, kind="view"), event(4, 3, user="other")
    )
    assert {row.user_id: row.event_types for row in tumbling} == {"u": ("buy", "view"), "other": ("v",)}


def test_of_one_id_of_a_user_the_first_by_time_counts() -> None:
    sliding, _ = rows(event(1, 5, "5"), event(1, 4, "4"), event(1, 4), event(1, 4, "7", user="other"))
    assert {(row.user_id, row.event_count, row.value_sum) for row in sliding} == {
        ("u", 1, Decimal(4)),
        ("other", 1, Decimal(7)),
    }


def test_the_order_of_arrival_does_not_matter() -> None:
    events = [event(number, number * 37_003, f"{number}.5") for number in range(20)]
    assert rows(*events) == rows(*reversed(events))


def test_a_list_has_repeats_by_time_and_then_by_id_and_no_event_twice() -> None:
    events = [
        event(3, 500, kind="b"),
        event(1, 1000, kind="b"),
        event(0, 1000, kind="a"),
        event(2, 0, kind="b"),
    ]
    next_window = event(9, SIZE_MS, kind="c")
    found = ordered_rows([*events, next_window, event(3, 700)], size_ms=SIZE_MS)
    assert [(row.start_ms - T0, row.event_count, row.event_types, row.event_ids) for row in found] == [
        (0, 4, ("b", "b", "a", "b"), ("e2", "e3", "e0", "e1")),
        (SIZE_MS, 1, ("c",), ("e9",)),
    ]


@given(
    st.lists(
        st.builds(event, st.integers(0, 9), st.integers(-SIZE_MS, SIZE_MS), kind=st.sampled_from("xy")),
        # Between two that differ in nothing else the order of arrival decides.
        unique_by=lambda one: (one.event_id, one.event_ms),
    ),
    st.randoms(),
)
def test_a_list_agrees_with_the_counts_and_the_set_and_with_any_order_of_arrival(
    events: list[UserEvent], rng: random.Random
) -> None:
    found = ordered_rows(events, size_ms=SIZE_MS)
    _, sets = rows(*events)
    assert sorted(
        (row.window_id, row.event_count, tuple(sorted(set(row.event_types)))) for row in found
    ) == sorted((row.window_id, row.event_count, row.event_types) for row in sets)
    rng.shuffle(events)
    assert ordered_rows(events, size_ms=SIZE_MS) == found
