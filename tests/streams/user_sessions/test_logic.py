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
from stateward.runtime.watermark.admission import Limits

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


def test_an_ended_session_is_emitted_once_no_earlier_event_can_come() -> None:
    arrived = (0, [event("L", 7, last=True)])

    assert stream(arrived, (7, []))[1] == []
    assert spans(stream(arrived, (8, []))[1]) == [(7, 7, 1, "ENDED", 7)]


def test_two_sessions_that_start_in_the_same_millisecond_have_ids_of_their_own() -> None:
    first, second = fold_all("u", [event("a", 1, last=True), event("b", 1)], GAP)

    assert first.session_id != second.session_id
    assert first.session_id == fold_all("u", [event("a", 1)], GAP)[0].session_id
    assert first.session_id != fold_all("v", [event("a", 1)], GAP)[0].session_id


def wake_up(state: UserState) -> int | None:
    return key_logic.next_timer(LOGIC, "u", state, LIMITS)


def test_the_next_wake_up_is_the_first_watermark_at_which_something_happens() -> None:
    open_session = stream((0, [event("a", 7)]), (8, []))[0]
    held_last = stream((0, [event("a", 7), event("L", 9, last=True)]))[0]
    only_ids = stream((0, [event("L", 9, last=True)]), (10, []))[0]

    assert wake_up(UserState()) is None
    assert wake_up(open_session) == 17
    assert wake_up(held_last) == 10
    assert wake_up(only_ids) == 9 + LATENESS + 1


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


@settings(max_examples=100, deadline=None)
@given(events=events_of_a_user, repeats=st.lists(st.integers(0, 39), max_size=20))
def test_repeated_records_change_nothing(events: list[SessionEvent], repeats: list[int]) -> None:
    again = [events[number] for number in repeats if number < len(events)]
    _, closed, accepted = stream((0, [*events, *again]), (END, []))

    assert closed == fold_all("u", events, GAP)
    assert accepted == len(events)


@settings(max_examples=100, deadline=None)
@given(events=events_of_a_user)
def test_a_full_buffer_neither_loses_an_event_nor_grows(events: list[SessionEvent]) -> None:
    limits = Limits(LATENESS, 3)
    state: UserState = UserState()
    closed = list[ClosedSession]()
    late = 0
    for arrival in [*events, None]:
        watermark = 0 if arrival else END
        arrivals = [arrival] if arrival else []
        step = advance(LOGIC, "u", state, arrivals, watermark_ms=watermark, limits=limits)
        state = step.kept
        closed += sessions_of(step.rows)
        late += len(step.admission.late)
        assert len(state.held) <= 3
        assert len(state.recent) <= 3

    assert sum(session.event_count for session in closed) + late == len(events)
    assert state.is_empty


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
