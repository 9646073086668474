"""What holds for any logins and logouts of a user, in order and on arrival."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings

from spark_jobs.user_activity.model import (
    LOGIN,
    LOGOUT,
    ActivityAnomaly,
    ActivityEvent,
    ActivitySession,
    ActivityState,
)
from stateward.runtime.api.key_logic import advance, replay_oracle
from stateward.runtime.watermark.admission import Limits
from stateward.testing.declarations import timelines
from tests.streams.user_activity.test_logic import (
    EAGER,
    END,
    IDLE,
    LATENESS,
    LOGIC,
    NOTHING,
    TIMEOUT,
    event,
    events_of,
    row_text,
    shown,
    stream,
)

arrivals_of_a_user = timelines(event, "iiiooo?", until=150, most=40)


def defined_rows(events: list[ActivityEvent]) -> set[str]:
    """The rows by their definition, from a look at the event before or behind each; no state."""
    ordered = sorted(events, key=lambda e: (e.event_ms, e.event_id))
    starts = [0, *(n for n, (a, b) in enumerate(pairwise(ordered), 1) if b.event_ms - a.event_ms >= IDLE)]
    rows = {row_text(_odd(one, "UNKNOWN_ACTIVITY")) for one in ordered if one.activity not in (LOGIN, LOGOUT)}
    known = [(number, one) for number, one in enumerate(ordered) if one.activity in (LOGIN, LOGOUT)]
    ends: list[tuple[int, ActivityEvent | None]] = [*known, (len(ordered), None)]
    for (number, one), (_, after) in pairwise(ends):
        if one is not None and one.activity == LOGIN:
            first = max(start for start in starts if start <= number)
            count = sum(e.activity == LOGIN for e in ordered[first : number + 1])
            rows.add(f"{one.event_ms}-{_end(one, after)} {count}")
    for (earlier, before), (number, one) in pairwise([(-1, None), *known]):
        if one is None or one.activity == LOGIN:
            continue
        if before is None or before.activity == LOGOUT or any(earlier < n <= number for n in starts):
            rows.add(row_text(_odd(one, "LOGOUT_WITHOUT_LOGIN")))
        elif one.event_ms - before.event_ms >= TIMEOUT:
            rows.add(row_text(_odd(one, "LOGOUT_AFTER_TIMEOUT")))
    return rows


def _odd(one: ActivityEvent, reason: str) -> ActivityAnomaly:
    return ActivityAnomaly("", "u", one.event_id, one.event_ms, one.activity, reason)


def _end(login: ActivityEvent, after: ActivityEvent | None) -> str:
    if after is None or after.event_ms - login.event_ms >= TIMEOUT:
        return f"{login.event_ms + TIMEOUT} TIMEOUT"
    return f"{after.event_ms} {'RELOGIN' if after.activity == LOGIN else 'LOGOUT'}"


@settings(max_examples=200, deadline=None)
@given(drawn=arrivals_of_a_user)
def test_the_rows_are_those_of_the_definition(drawn: list[ActivityEvent]) -> None:
    events = drawn
    rows = replay_oracle(LOGIC, "u", events)

    assert set(shown(rows)) == defined_rows(events)
    every_event_is_accounted_for(events, rows)


def every_event_is_accounted_for(events: list[ActivityEvent], rows: list[tuple[Any, ...]]) -> None:
    """Every login is one session, and every other event ends one or is an anomaly."""
    sessions = [row for row in rows if isinstance(row, ActivitySession)]
    anomalies = [row for row in rows if isinstance(row, ActivityAnomaly)]
    logins = sum(one.activity == LOGIN for one in events)
    assert len(sessions) == logins
    ended = sum(row.close_reason == "LOGOUT" for row in sessions)
    assert ended + len(anomalies) == len(events) - logins
    assert all(0 <= row.duration_ms <= TIMEOUT for row in sessions)
    counts = [row.session_count for row in sessions]
    assert all(count in (1, before + 1) for before, count in pairwise([0, *counts]))
    assert len({row[0] for row in rows}) == len(rows)


@settings(max_examples=200, deadline=None)
@given(drawn=arrivals_of_a_user)
def test_on_arrival_in_any_order_no_event_is_lost_and_the_state_goes(drawn: list[ActivityEvent]) -> None:
    # The choices are unordered in time, so they arrive as they were drawn.
    kept, rows = NOTHING, list[tuple[Any, ...]]()
    for one in drawn:
        turn = advance(LOGIC, "u", kept, [one], watermark_ms=0, limits=EAGER)
        kept = turn.kept
        rows += turn.rows
        assert kept.state is None or LOGIC.deadline(kept.state) > 0
    turn = advance(LOGIC, "u", kept, [], watermark_ms=END, limits=EAGER)

    assert turn.kept.is_empty
    every_event_is_accounted_for(drawn, [*rows, *turn.rows])


@pytest.mark.parametrize(
    ("arrivals", "expected"),
    [
        ("i0 i5 o3", ["0-5 RELOGIN 1", "3 logout LOGOUT_WITHOUT_LOGIN (3)", "5-15 TIMEOUT 2"]),
        ("i5 i2 o8", ["2-5 RELOGIN 1", "5-8 LOGOUT 2"]),
        ("i25 i2 o28", ["2-12 TIMEOUT 1", "25-28 LOGOUT 2"]),
        ("i12 i2 o14", ["2-12 TIMEOUT 1", "12-14 LOGOUT 2"]),
        ("o5 i2", ["5 logout LOGOUT_WITHOUT_LOGIN (5)", "2-12 TIMEOUT 1"]),
        ("i0 ?9 o3", ["9 lunch UNKNOWN_ACTIVITY (9)", "0-3 LOGOUT 1"]),
        (
            "i0 ?12 o8",
            ["0-10 TIMEOUT 1", "12 lunch UNKNOWN_ACTIVITY (12)", "8 logout LOGOUT_AFTER_TIMEOUT (8)"],
        ),
    ],
)
def test_on_arrival_an_older_event_is_acted_on_as_it_comes(arrivals: str, expected: list[str]) -> None:
    batches = [(0, [event(text[0], int(text[1:]))]) for text in arrivals.split()]
    kept, rows = stream(*batches, (END, []), limits=EAGER)

    assert shown(rows) == expected
    assert kept.is_empty


def test_on_arrival_an_older_event_does_not_shorten_the_life_of_a_count() -> None:
    kept, _ = stream((0, events_of(".....i..o")), (0, [event("?", 2)]), limits=EAGER)

    assert kept.state == ActivityState(1, 8)


@settings(max_examples=200, deadline=None)
@given(drawn=arrivals_of_a_user)
def test_a_full_buffer_neither_loses_an_event_nor_grows(drawn: list[ActivityEvent]) -> None:
    limits = Limits(LATENESS, 3)
    kept, rows, accepted = NOTHING, list[tuple[Any, ...]](), list[ActivityEvent]()
    for one in drawn:
        turn = advance(LOGIC, "u", kept, [one], watermark_ms=0, limits=limits)
        kept = turn.kept
        rows += turn.rows
        accepted += [one] * turn.admission.accepted
        assert len(kept.held) <= 3
        assert len(kept.recent) <= 3
    turn = advance(LOGIC, "u", kept, [], watermark_ms=END, limits=limits)

    assert turn.kept.is_empty
    every_event_is_accounted_for(accepted, [*rows, *turn.rows])
