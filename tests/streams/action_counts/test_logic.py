"""Actions of one user, drawn as timelines of one character a tick: a letter is an action, ``.`` is none.

A count ends after 10 ticks without an action. Every case goes through the streaming path and through the
oracle; both must agree. Event ids are the ticks.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from spark_jobs.action_counts.logic import CountLogic
from spark_jobs.action_counts.model import ActionEvent, Count, CountSettings, CurrentCount
from stateward.runtime.api.key_logic import KeyState, advance, next_timer, replay_oracle
from stateward.runtime.watermark.admission import Limits

IDLE = 10
LATENESS = 5
LOGIC = CountLogic(CountSettings(idle_ms=IDLE))
LIMITS = Limits(LATENESS, 1000)
ARRIVAL = Limits(LATENESS, 1000, eager=True, as_they_come=True)
UserState = KeyState[Count, ActionEvent]
NOTHING: UserState = KeyState()


def events_of(timeline: str) -> list[ActionEvent]:
    return [ActionEvent(str(at), at, action) for at, action in enumerate(timeline) if action != "."]


def stream(
    *batches: tuple[int, list[ActionEvent]], limits: Limits = LIMITS
) -> tuple[UserState, list[CurrentCount]]:
    """Run batches of (watermark, events); returns what is kept, and all rows."""
    kept, rows = NOTHING, list[tuple[Any, ...]]()
    for watermark, events in batches:
        turn = advance(LOGIC, "u", kept, events, watermark_ms=watermark, limits=limits)
        kept = turn.kept
        rows += turn.rows
    return kept, cast(list[CurrentCount], rows)


def shown(rows: list[CurrentCount]) -> list[str]:
    return [f"{row.action_count} {row.last_action} at {row.updated_ms}" for row in rows]


# name: (timeline, rows)
#  0         1         2         3
#  0123456789012345678901234567890
CASES: dict[str, tuple[str, list[str]]] = {
    "nothing": ("", []),
    "one action": ("a", ["1 a at 0", "1 TIMEOUT at 10"]),
    "the last action wins": ("a..b.c", ["1 a at 0", "2 b at 3", "3 c at 5", "3 TIMEOUT at 15"]),
    "the last tick before the deadline": (
        "a........b",
        ["1 a at 0", "2 b at 9", "2 TIMEOUT at 19"],
    ),
    "an action at the deadline starts at one": (
        "a.........b",
        ["1 a at 0", "1 TIMEOUT at 10", "1 b at 10", "1 TIMEOUT at 20"],
    ),
    "an action one tick after the deadline": (
        "a..........b",
        ["1 a at 0", "1 TIMEOUT at 10", "1 b at 11", "1 TIMEOUT at 21"],
    ),
    "the pause counts from the last action": (
        "a.....b.....c",
        ["1 a at 0", "2 b at 6", "3 c at 12", "3 TIMEOUT at 22"],
    ),
}


@pytest.mark.parametrize(("timeline", "rows"), CASES.values(), ids=CASES)
def test_a_timeline_brings_its_rows(timeline: str, rows: list[str]) -> None:
    events = events_of(timeline)
    end = len(timeline) + IDLE
    kept, found = stream((0, events), (end, []), (end + LATENESS + 1, []))

    assert shown(found) == rows
    assert replay_oracle(LOGIC, "u", events) == found
    assert kept.is_empty


@pytest.mark.parametrize("watermark", [IDLE - 1, IDLE])
def test_the_final_row_comes_at_the_deadline_and_not_before(watermark: int) -> None:
    kept, rows = stream((0, events_of("a")), (watermark, []), limits=ARRIVAL)

    assert (len(rows), kept.state is None) == ((2, True) if watermark >= IDLE else (1, False))


def test_the_alarm_stands_at_the_deadline() -> None:
    kept, _ = stream((0, events_of("a..b")), limits=ARRIVAL)
    assert next_timer(LOGIC, "u", kept, ARRIVAL) == 3 + IDLE


def test_a_final_row_keeps_the_count_and_names_the_last_event() -> None:
    _, rows = stream((0, events_of("a..b")), (50, []))

    assert rows[-1] == CurrentCount("u", 2, "TIMEOUT", "3", True, 0, 3, 13)
    assert rows[-2] == CurrentCount("u", 2, "b", "3", False, 0, 3, 3)


def test_on_arrival_the_last_action_is_the_last_that_came() -> None:
    read = [ActionEvent("z", 7, "first"), ActionEvent("a", 7, "second")]
    _, rows = stream((0, read), limits=ARRIVAL)

    assert [(row.last_action, row.last_event_id) for row in rows] == [("first", "z"), ("second", "a")]


def test_an_older_time_moves_no_deadline_back() -> None:
    state, rows = LOGIC.apply("u", Count(20, 30, 4, "x", "e1"), ActionEvent("e2", 12, "y"))

    assert state == Count(12, 30, 5, "y", "e2")
    assert LOGIC.deadline(state) == 30 + IDLE
    assert rows == (CurrentCount("u", 5, "y", "e2", False, 12, 30, 30),)


def test_a_repeated_id_does_not_count_within_the_lateness() -> None:
    action = ActionEvent("e", 7, "a")
    _, rows = stream((7, [action]), (7 + LATENESS, [action._replace(event_ms=7 + LATENESS)]), limits=ARRIVAL)

    assert [row.action_count for row in rows] == [1]
