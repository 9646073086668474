"""Logins and logouts of one user, drawn as timelines of one character a tick.

    i  login        o  logout        ?  an event of another activity        .  nothing

A session times out after 10 ticks, the count is forgotten after 30. Every case goes through the streaming
path and through the oracle; both must agree. Event ids are the ticks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from spark_jobs.user_activity.logic import ActivityLogic
from spark_jobs.user_activity.model import (
    ActivityAnomaly,
    ActivityEvent,
    ActivitySession,
    ActivitySettings,
    ActivityState,
)
from stateward.runtime.api.key_logic import KeyState, advance, replay_oracle, row_id
from stateward.runtime.watermark.admission import Limits

UserState = KeyState[ActivityState, ActivityEvent]
NOTHING: UserState = KeyState()

TIMEOUT = 10
IDLE = 30
LATENESS = 5
LIMITS = Limits(LATENESS, 1000)
EAGER = Limits(1000, 1000, eager=True)
END = 10**9
LOGIC = ActivityLogic(ActivitySettings(session_timeout_ms=TIMEOUT, counter_idle_ms=IDLE))
ACTIVITIES = {"i": "login", "o": "logout", "?": "lunch"}
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def event(mark: str, at: int, name: str | None = None) -> ActivityEvent:
    return ActivityEvent(str(at) if name is None else name, at, ACTIVITIES[mark])


def events_of(timeline: str) -> list[ActivityEvent]:
    return [event(mark, at) for at, mark in enumerate(timeline) if mark != "."]


def shown(rows: Iterable[Sequence[Any]]) -> list[str]:
    return [row_text(row) for row in rows]


def row_text(row: Any) -> str:
    assert row.user_id == "u"
    if isinstance(row, ActivitySession):
        assert row.duration_ms == row.logout_ms - row.login_ms
        return f"{row.login_ms}-{row.logout_ms} {row.close_reason} {row.session_count}"
    assert isinstance(row, ActivityAnomaly)
    return f"{row.occurred_ms} {row.activity} {row.reason} ({row.event_id})"


def stream(
    *batches: tuple[int, list[ActivityEvent]], limits: Limits = LIMITS
) -> tuple[UserState, list[tuple[Any, ...]]]:
    """Run batches of (watermark, events); returns what is kept, and all rows."""
    kept, rows = NOTHING, list[tuple[Any, ...]]()
    for watermark, events in batches:
        turn = advance(LOGIC, "u", kept, events, watermark_ms=watermark, limits=limits)
        kept = turn.kept
        rows += turn.rows
    return kept, rows


# name: (timeline, rows)
#  0         1         2         3         4         5
#  012345678901234567890123456789012345678901234567890
CASES: dict[str, tuple[str, list[str]]] = {
    "nothing": ("", []),
    "a login and its logout": ("i....o", ["0-5 LOGOUT 1"]),
    "the last tick before the deadline": ("i........o", ["0-9 LOGOUT 1"]),
    "a logout at the deadline comes after it": (
        "i.........o",
        ["0-10 TIMEOUT 1", "10 logout LOGOUT_AFTER_TIMEOUT (10)"],
    ),
    "a login that is never followed": ("i", ["0-10 TIMEOUT 1"]),
    "a second login closes the first": ("i..i....o", ["0-3 RELOGIN 1", "3-8 LOGOUT 2"]),
    "each login has the timeout to itself": ("i........i........o", ["0-9 RELOGIN 1", "9-18 LOGOUT 2"]),
    "a login at the deadline closes nothing": ("i.........i.o", ["0-10 TIMEOUT 1", "10-12 LOGOUT 2"]),
    "a logout first": ("o.i..o", ["0 logout LOGOUT_WITHOUT_LOGIN (0)", "2-5 LOGOUT 1"]),
    "a second logout": ("i.o.o", ["0-2 LOGOUT 1", "4 logout LOGOUT_WITHOUT_LOGIN (4)"]),
    "of two logins only the newer one waits for a logout": (
        "i.i.o.o",
        ["0-2 RELOGIN 1", "2-4 LOGOUT 2", "6 logout LOGOUT_WITHOUT_LOGIN (6)"],
    ),
    "only one logout follows a timeout": (
        "i..........o..o",
        ["0-10 TIMEOUT 1", "11 logout LOGOUT_AFTER_TIMEOUT (11)", "14 logout LOGOUT_WITHOUT_LOGIN (14)"],
    ),
    "a new login ends the wait for the logout of a timeout": (
        "i...........i.o.o",
        ["0-10 TIMEOUT 1", "12-14 LOGOUT 2", "16 logout LOGOUT_WITHOUT_LOGIN (16)"],
    ),
    "an unknown activity changes no session": (
        "?i.?.o",
        ["0 lunch UNKNOWN_ACTIVITY (0)", "3 lunch UNKNOWN_ACTIVITY (3)", "1-5 LOGOUT 1"],
    ),
    "an unknown activity between a timeout and its logout": (
        "i..........?o",
        ["0-10 TIMEOUT 1", "11 lunch UNKNOWN_ACTIVITY (11)", "12 logout LOGOUT_AFTER_TIMEOUT (12)"],
    ),
    "an event just within the idle time": ("io" + "." * 28 + "io", ["0-1 LOGOUT 1", "30-31 LOGOUT 2"]),
    "an event at the end of the idle time counts from one": (
        "io" + "." * 29 + "i.o",
        ["0-1 LOGOUT 1", "31-33 LOGOUT 1"],
    ),
    "the idle time counts from the login of a timeout": (
        "i" + "." * 29 + "o",
        ["0-10 TIMEOUT 1", "30 logout LOGOUT_WITHOUT_LOGIN (30)"],
    ),
    "a timeout is known until then": (
        "i" + "." * 28 + "o",
        ["0-10 TIMEOUT 1", "29 logout LOGOUT_AFTER_TIMEOUT (29)"],
    ),
    "any event keeps the count": (
        "io" + "." * 20 + "o" + "." * 20 + "?" + "." * 20 + "io",
        [
            "0-1 LOGOUT 1",
            "22 logout LOGOUT_WITHOUT_LOGIN (22)",
            "43 lunch UNKNOWN_ACTIVITY (43)",
            "64-65 LOGOUT 2",
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_rows_of_a_timeline(name: str) -> None:
    timeline, expected = CASES[name]
    events = events_of(timeline)

    assert shown(replay_oracle(LOGIC, "u", events)) == expected
    kept, rows = stream((0, list(reversed(events))), (END, []))
    assert shown(rows) == expected
    assert kept.is_empty


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([event("i", 0), event("o", HOUR_MS - 1)], ["0-3599999 LOGOUT 1"]),
        (
            [event("i", 0), event("o", HOUR_MS, "x")],
            ["0-3600000 TIMEOUT 1", "3600000 logout LOGOUT_AFTER_TIMEOUT (x)"],
        ),
        (
            [event("i", 0), event("o", 1), event("i", 30 * DAY_MS), event("o", 30 * DAY_MS + 1)],
            ["0-1 LOGOUT 1", "2592000000-2592000001 LOGOUT 2"],
        ),
        (
            [event("i", 0), event("o", 1), event("i", 30 * DAY_MS + 1), event("o", 30 * DAY_MS + 2)],
            ["0-1 LOGOUT 1", "2592000001-2592000002 LOGOUT 1"],
        ),
    ],
    ids=["1 h minus 1 ms", "1 h", "30 d minus 1 ms", "30 d"],
)
def test_the_boundaries_in_milliseconds(events: list[ActivityEvent], expected: list[str]) -> None:
    assert shown(replay_oracle(ActivityLogic(ActivitySettings()), "u", events)) == expected


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ("io", ["7-7 LOGOUT 1"]),
        ("oi", ["7 logout LOGOUT_WITHOUT_LOGIN (0)", "7-17 TIMEOUT 1"]),
        ("ioi", ["7-7 LOGOUT 1", "7-17 TIMEOUT 2"]),
        ("iio", ["7-7 RELOGIN 1", "7-7 LOGOUT 2"]),
    ],
)
def test_events_of_the_same_time_are_ordered_by_their_ids(marks: str, expected: list[str]) -> None:
    events = [event(mark, 7, str(number)) for number, mark in enumerate(marks)]

    assert shown(stream((0, events[::-1]), (END, []))[1]) == expected
    assert shown(replay_oracle(LOGIC, "u", events)) == expected


def test_a_timeout_is_written_when_the_watermark_reaches_it_and_not_before() -> None:
    arrived = (0, events_of("i"))

    assert stream(arrived, (9, []))[1] == []
    assert shown(stream(arrived, (10, []))[1]) == ["0-10 TIMEOUT 1"]


def test_a_count_is_kept_for_the_idle_time_and_goes_without_a_row() -> None:
    arrived = (0, events_of("i..o"))
    kept, _ = stream(arrived, (32, []))
    assert kept.state == ActivityState(1, 3)
    assert stream((0, events_of("i..........o")), (12, []))[0].state == ActivityState(1, 11)

    kept, rows = stream(arrived, (33, []))
    assert kept.is_empty
    assert shown(rows) == ["0-3 LOGOUT 1"]


def test_a_user_of_whom_nothing_is_known_leaves_nothing_behind() -> None:
    kept, rows = stream((0, events_of("o?o")), (9, []))

    assert len(rows) == 3
    assert kept.is_empty


def test_identities_come_from_the_user_and_the_login_or_the_odd_event() -> None:
    for marks in ("ii", "oi", "?i"):
        events = [event(marks[0], 7, "a"), event(marks[1], 7, "b")]
        rows = replay_oracle(LOGIC, "u", events)
        assert [row[0] for row in rows] == [row_id("u", 7, one.event_id) for one in events]
