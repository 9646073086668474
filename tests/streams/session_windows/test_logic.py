"""The oracle of ``session_windows``: its rows are those of ``user_sessions``, without reasons to close."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.session_windows.logic import all_rows
from spark_jobs.session_windows.model import SessionWindow, UserEvent
from spark_jobs.user_sessions.logic import SessionLogic
from spark_jobs.user_sessions.model import TIMEOUT, SessionEvent
from stateward.runtime.api.key_logic import KeyState, advance, row_id
from stateward.runtime.watermark.admission import Limits
from stateward.testing.declarations import Records
from tests.support.spark.launches import REAL_EVENTS

GAP = 10
LATENESS = 5
LIMITS = Limits(LATENESS, 1000)
END = 10**9


def event(event_id: str, at_ms: int, user: str = "u") -> UserEvent:
    return UserEvent(event_id, at_ms, user, f"type-{event_id}")


@pytest.mark.parametrize(
    ("times", "spans"),
    [
        pytest.param([7], [(7, 7, 1, 17)], id="one event"),
        pytest.param([0, 9], [(0, 9, 2, 19)], id="a millisecond less than the gap apart"),
        pytest.param([0, 10], [(0, 0, 1, 10), (10, 10, 1, 20)], id="exactly the gap apart"),
        pytest.param([0, 9, 18, 27], [(0, 27, 4, 37)], id="longer than the gap in all"),
        pytest.param([18, 0, 9], [(0, 18, 3, 28)], id="the event between arrives last"),
    ],
)
def test_sessions_end_the_gap_after_their_last_event(
    times: list[int], spans: list[tuple[int, int, int, int]]
) -> None:
    found = all_rows([event(f"e{number}", at) for number, at in enumerate(times)], gap_ms=GAP)
    assert [(row.started_ms, row.ended_ms, row.event_count, row.closed_ms) for row in found] == spans
    assert {row.duration_ms - (row.ended_ms - row.started_ms) for row in found} == {0}


def test_a_row_has_the_first_id_and_the_last_type_of_its_own_user() -> None:
    found = all_rows([event("b", 3), event("c", 3), event("a", 3), event("a", 4, "other")], gap_ms=GAP)
    assert found == [
        SessionWindow(row_id("u", 3, "a"), "u", 3, 3, 0, 3, "type-c", 13),
        SessionWindow(row_id("other", 4, "a"), "other", 4, 4, 0, 1, "type-a", 14),
    ]


def test_of_one_id_of_a_user_the_first_by_time_counts() -> None:
    [row] = all_rows([event("a", 5), event("a", 4), event("a", 5)], gap_ms=GAP)
    assert (row.started_ms, row.event_count) == (4, 1)


def test_what_ends_a_session_of_user_sessions_sooner_or_later_is_ignored() -> None:
    records = Records("session_windows")
    assert records.event(3, is_last=True, timeout_s="x") == records.event(3)


arrivals = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 100), st.sampled_from("xy"), st.integers(0, LATENESS)),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(arrivals=arrivals, cuts=st.lists(st.integers(0, 40), max_size=5), repeated=st.integers(0, 39))
def test_the_rows_are_those_that_user_sessions_writes(
    arrivals: list[tuple[str, int, str, int]], cuts: list[int], repeated: int
) -> None:
    """However its input is cut into batches, out of order within the lateness, and with a repeated record."""
    events = [
        (at_ms + delay, UserEvent(f"e{number}", at_ms, user, kind))
        for number, (user, at_ms, kind, delay) in enumerate(arrivals)
    ]
    events += events[repeated : repeated + 1]
    sent = [one for _, one in sorted(events, key=lambda arrival: arrival[0])]

    assert sorted(all_rows(sent, gap_ms=GAP)) == sorted(streamed(sent, sorted(cuts)))


def streamed(sent: list[UserEvent], cuts: list[int]) -> list[tuple[Any, ...]]:
    """What `user_sessions` writes, batch by batch, without the reason."""
    states: dict[str, KeyState[Any, Any]] = defaultdict(KeyState)
    rows: list[Any] = []
    newest = 0
    for begin, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        watermark = newest - LATENESS
        batch: dict[str, list[SessionEvent]] = {user: [] for user in states}
        for one in sent[begin:end]:
            batch.setdefault(one.user_id, []).append(SessionEvent(one.event_id, one.event_ms, one.event_type))
            newest = max(newest, one.event_ms)
        rows += turn(states, batch, watermark)
    rows += turn(states, {user: [] for user in states}, END)
    assert {row.close_reason for row in rows} <= {TIMEOUT}
    return [tuple(getattr(row, name) for name in SessionWindow._fields) for row in rows]


def turn(
    states: dict[str, KeyState[Any, Any]], batch: dict[str, list[SessionEvent]], watermark: int
) -> list[Any]:
    rows: list[Any] = []
    for user, found in batch.items():
        done = advance(SessionLogic(GAP), user, states[user], found, watermark_ms=watermark, limits=LIMITS)
        assert not done.admission.late
        states[user] = done.kept
        rows += done.rows
    return rows


def test_the_known_answer_of_the_real_page_views() -> None:
    events = []
    with gzip.open(REAL_EVENTS, "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            at_ms = int(datetime.fromisoformat(record["event_time"]).timestamp() * 1000)
            events.append(UserEvent(record["event_id"], at_ms, record["user_id"], record["event_type"]))

    found = all_rows(events, gap_ms=30 * 60 * 1000)

    assert len(found) == len({row.session_id for row in found}) == 3052
    assert sum(row.event_count for row in found) == 10_000
