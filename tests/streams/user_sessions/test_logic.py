"""Sessions of one user, with the gap as ten and times drawn above the cases.

Every case goes through the streaming fold and through the oracle; both must agree.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.user_sessions.logic import SessionLogic
from spark_jobs.user_sessions.model import ClosedSession, OpenSession, SessionEvent
from stateward.runtime.api import key_logic
from stateward.runtime.api.key_logic import KeyState, advance
from stateward.runtime.watermark.admission import Limits, order

UserState = KeyState[OpenSession, SessionEvent]

GAP = 10
LATENESS = 5
LIMITS = Limits(LATENESS, 1000)
LOGIC = SessionLogic(GAP)
END = 10**9
CHECKOUT = Path(__file__).resolve().parents[3]


def event(name: str, at: int, *, last: bool = False, gap: int | None = None) -> SessionEvent:
    return SessionEvent(name, at, f"type-{name}", last, gap)


def stream(*batches: tuple[int, list[SessionEvent]]) -> tuple[UserState, list[ClosedSession], int]:
    """Run batches of (watermark, events); returns the state, what closed, and how many were accepted."""
    state: UserState = UserState()
    closed, accepted = list[ClosedSession](), 0
    for watermark, events in batches:
        step = advance(LOGIC, "u", state, events, watermark_ms=watermark, limits=LIMITS)
        state, accepted = step.kept, accepted + step.admission.accepted
        closed += sessions_of(step.rows)
    return state, closed, accepted


def sessions_of(rows: Sequence[tuple[Any, ...]]) -> list[ClosedSession]:
    """Return the rows, all of which are sessions."""
    sessions = [row for row in rows if isinstance(row, ClosedSession)]
    assert len(sessions) == len(rows)
    return sessions


def fold_all(user: str, events: Iterable[SessionEvent], gap: int) -> list[ClosedSession]:
    return sessions_of(key_logic.replay_oracle(SessionLogic(gap), user, events))


def spans(closed: list[ClosedSession]) -> list[tuple[int, int, int, str, int]]:
    return [(s.started_ms, s.ended_ms, s.event_count, s.close_reason, s.closed_ms) for s in closed]


# time      0         1         2         3         4
#           0123456789012345678901234567890123456789012
CASES = {
    # a--------b                  nine apart: one session, over ten after b
    "within the gap": ([event("a", 0), event("b", 9)], [(0, 9, 2, "TIMEOUT", 19)]),
    # a---------b                 exactly the gap apart is not less than the gap
    "at the gap": ([event("a", 0), event("b", 10)], [(0, 0, 1, "TIMEOUT", 10), (10, 10, 1, "TIMEOUT", 20)]),
    # a---L-c                     L ends its session at once, c starts another
    "last": (
        [event("a", 0), event("L", 4, last=True), event("c", 6)],
        [(0, 4, 2, "ENDED", 4), (6, 6, 1, "TIMEOUT", 16)],
    ),
    # L                           one event can be a whole session
    "last alone": ([event("L", 3, last=True)], [(3, 3, 1, "ENDED", 3)]),
    # a~20~~~~~~~~~~~~~~b         a asks for twenty, so b still belongs
    "longer gap": ([event("a", 0, gap=20), event("b", 15)], [(0, 15, 2, "TIMEOUT", 35)]),
    # a~20~b~3~~c                 the latest wish holds: three after b, c is too late
    "latest gap": (
        [event("a", 0, gap=20), event("b", 5, gap=3), event("c", 9)],
        [(0, 5, 2, "TIMEOUT", 8), (9, 9, 1, "TIMEOUT", 19)],
    ),
    # a~20~L  b---------c         a wish ends with its session
    "gap does not outlive": (
        [event("a", 0, gap=20), event("L", 5, last=True), event("b", 8), event("c", 18)],
        [(0, 5, 2, "ENDED", 5), (8, 8, 1, "TIMEOUT", 18), (18, 18, 1, "TIMEOUT", 28)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_sessions_of_a_timeline(name: str) -> None:
    events, expected = CASES[name]

    assert spans(fold_all("u", events, GAP)) == expected
    state, closed, accepted = stream((0, list(reversed(events))), (END, []))
    assert spans(closed) == expected
    assert accepted == len(events)
    assert state.is_empty


def test_a_session_closes_when_the_watermark_reaches_its_gap_and_not_before() -> None:
    arrived = (0, [event("a", 7)])

    assert stream(arrived, (16, []))[1] == []
    assert spans(stream(arrived, (17, []))[1]) == [(7, 7, 1, "TIMEOUT", 17)]


def test_an_event_at_the_watermark_that_closes_a_session_starts_another() -> None:
    _, closed, _ = stream((0, [event("a", 7)]), (17, [event("b", 17)]), (END, []))

    assert spans(closed) == [(7, 7, 1, "TIMEOUT", 17), (17, 17, 1, "TIMEOUT", 27)]


def test_on_arrival_an_older_event_only_counts_and_one_of_the_same_time_is_the_last() -> None:
    eager = Limits(LATENESS, 1000, eager=True)
    arrivals = [event("b", 10, gap=7), event("a", 10), event("x", 6, gap=9), event("y", 8)]
    state: UserState = UserState()
    for arrival in arrivals:
        state = advance(LOGIC, "u", state, [arrival], watermark_ms=0, limits=eager).kept

    assert state.state == OpenSession(key_logic.row_id("u", 10, "b"), 6, 10, 4, "type-a", 7)


events_of_a_user = st.lists(
    st.builds(
        SessionEvent,
        event_id=st.uuids().map(str),
        event_ms=st.integers(0, 200),
        event_type=st.sampled_from("ab"),
        is_last=st.integers(0, 5).map(lambda number: number == 0),
        timeout_ms=st.none() | st.integers(1, 30),
    ),
    max_size=40,
)


def runs_of(events: Iterable[SessionEvent]) -> list[list[SessionEvent]]:
    """The events of each session: each less than its run's gap after the one before."""
    runs = list[list[SessionEvent]]()
    for one in sorted(events, key=order):
        if not runs or runs[-1][-1].is_last or one.event_ms - runs[-1][-1].event_ms >= gap_of(runs[-1]):
            runs.append([])
        runs[-1].append(one)
    return runs


def sessions_by_definition(events: list[SessionEvent]) -> list[ClosedSession]:
    """The rows, from the runs of events."""
    rows = list[ClosedSession]()
    for run in runs_of(events):
        first, last = run[0], run[-1]
        identity = key_logic.row_id("u", first.event_ms, first.event_id)
        span = (first.event_ms, last.event_ms, last.event_ms - first.event_ms)
        end = ("ENDED", last.event_ms) if last.is_last else ("TIMEOUT", last.event_ms + gap_of(run))
        rows.append(ClosedSession(identity, "u", *span, len(run), last.event_type, *end))
    return rows


def gap_of(run: list[SessionEvent]) -> int:
    return next((one.timeout_ms for one in reversed(run) if one.timeout_ms), GAP)


@settings(max_examples=100, deadline=None)
@given(events=events_of_a_user, repeats=st.lists(st.integers(0, 39), max_size=20))
def test_sessions_are_those_of_the_definition_whatever_is_repeated(
    events: list[SessionEvent], repeats: list[int]
) -> None:
    again = [events[number] for number in repeats if number < len(events)]
    _, closed, accepted = stream((0, [*events, *again]), (END, []))

    assert closed == fold_all("u", events, GAP) == sessions_by_definition(events)
    assert accepted == len(events)


def test_the_known_answer_of_the_real_page_views() -> None:
    users: dict[str, list[SessionEvent]] = defaultdict(list)
    with gzip.open(CHECKOUT / "data" / "web_events.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            at = int(datetime.fromisoformat(record["event_time"]).timestamp() * 1000)
            users[record["user_id"]].append(SessionEvent(record["event_id"], at, record["event_type"]))

    sessions = [s for user, events in users.items() for s in fold_all(user, events, 30 * 60 * 1000)]

    assert len(users) == 1753
    assert len(sessions) == 3052
    assert sum(session.event_count for session in sessions) == 10_000
    assert len({session.session_id for session in sessions}) == 3052
