"""The events of a session and its current row, as the optional tables of ``user_sessions`` have them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.user_sessions.declaration import JOB
from spark_jobs.user_sessions.logic import SessionLogic, keep
from spark_jobs.user_sessions.model import (
    ClosedSession,
    CurrentSession,
    KeptEvent,
    OpenSession,
    SessionEvent,
    SessionEvents,
)
from stateward.project.spec import SpecError, load_spec
from stateward.runtime.api.key_logic import KeyState, advance, replay_oracle
from stateward.runtime.keyed.codec import KeyStateCodec
from stateward.runtime.watermark.admission import Limits
from tests.streams.user_sessions.test_logic import END, GAP, event, events_of_a_user, runs_of

MOST = 3
LOGIC = SessionLogic(GAP, max_events=MOST, with_updates=True)
LIMITS = Limits(1000, 1000)
EAGER = Limits(1000, 1000, eager=True)


def rows_of(logic: SessionLogic, arrivals: list[SessionEvent], limits: Limits) -> list[tuple[Any, ...]]:
    """All rows, if each event arrives by itself."""
    state: KeyState[OpenSession, SessionEvent] = KeyState()
    rows = list[tuple[Any, ...]]()
    for number, watermark_ms in enumerate([0] * len(arrivals) + [END]):
        step = advance(
            logic, "u", state, arrivals[number : number + 1], watermark_ms=watermark_ms, limits=limits
        )
        state = step.kept
        rows += step.rows
    assert state.is_empty
    return rows


@settings(max_examples=100, deadline=None)
@given(events=events_of_a_user, rng=st.randoms(use_true_random=False))
def test_the_rows_are_those_of_the_definition(events: list[SessionEvent], rng: Any) -> None:
    rng.shuffle(events)
    rows = rows_of(LOGIC, events, LIMITS)

    assert rows == replay_oracle(LOGIC, "u", events)
    closed = [row for row in rows if type(row) is ClosedSession]
    assert closed == replay_oracle(SessionLogic(GAP), "u", events)
    wanted, updates = list[SessionEvents](), list[tuple[int, str, bool, int]]()
    for row, run in zip(closed, runs_of(events), strict=True):
        first, kept = run[0], run[:MOST]
        wanted.append(
            SessionEvents(
                session_id=row.session_id,
                user_id="u",
                started_ms=first.event_ms,
                event_count=len(run),
                left_out=max(0, len(run) - MOST),
                event_ids=tuple(one.event_id for one in kept),
                event_types=tuple(one.event_type for one in kept),
                offsets_ms=tuple(one.event_ms - first.event_ms for one in kept),
                closed_ms=row.closed_ms,
            )
        )
        counted = list(enumerate(run, start=1))[: len(run) - run[-1].is_last]
        updates += [(count, one.event_type, True, one.event_ms) for count, one in counted]
        updates.append((len(run), row.last_event_type, False, row.closed_ms))
    assert [row for row in rows if type(row) is SessionEvents] == wanted
    current = [row for row in rows if type(row) is CurrentSession]
    assert [(row.event_count, row.last_event_type, row.is_open, row.updated_ms) for row in current] == updates


@given(
    arrivals=st.permutations(
        [event(name, at) for name, at in zip("abcdefg", (0, 3, 3, 4, 5, 6, 6), strict=True)]
    ),
    most=st.integers(1, 8),
)
def test_on_arrival_the_events_are_the_first_by_time_in_any_order_of_arrival(
    arrivals: list[SessionEvent], most: int
) -> None:
    rows = rows_of(SessionLogic(GAP, max_events=most), arrivals, EAGER)
    (found,) = [row for row in rows if isinstance(row, SessionEvents)]
    assert found.event_ids == tuple("abcdefg"[:most])
    assert found.offsets_ms == (0, 3, 3, 4, 5, 6, 6)[:most]
    assert (found.event_count, found.left_out) == (7, 7 - len(found.event_ids))


def test_a_session_that_was_open_before_the_option_has_the_events_from_then_on() -> None:
    state, _ = SessionLogic(GAP).apply("u", None, event("a", 0))
    state, _ = LOGIC.apply("u", state, event("b", 4))
    assert state is not None
    _, rows = LOGIC.expire("u", state, LOGIC.deadline(state))
    (found,) = [row for row in rows if isinstance(row, SessionEvents)]
    assert (found.event_ids, found.offsets_ms, found.event_count, found.left_out) == (("b",), (4,), 2, 1)


def test_a_smaller_number_of_events_holds_at_once_and_none_are_kept_without_the_table() -> None:
    state: OpenSession | None = None
    for number in range(4):
        state, _ = SessionLogic(GAP, max_events=4).apply("u", state, event(f"e{number}", number))
    assert state is not None and len(state.first_events) == 4
    _, rows = SessionLogic(GAP, max_events=2).expire("u", state, 13)
    assert [(row.event_ids, row.left_out) for row in rows if isinstance(row, SessionEvents)] == [
        (("e0", "e1"), 2)
    ]
    state, rows = SessionLogic(GAP).apply("u", state, event("e4", 4))
    assert state is not None and state.first_events == () and not rows


def test_a_state_of_the_release_before_is_read_and_written_with_no_events() -> None:
    codec: KeyStateCodec[Any, Any] = KeyStateCodec(JOB.state_type, JOB.event_type)
    before = (
        b'{"state":{"session_id":"s","started_ms":0,"last_ms":4,"event_count":2,'
        b'"last_event_type":"x","gap_ms":9}}'
    )
    kept = codec.decode(before)
    assert kept.state == OpenSession("s", 0, 4, 2, "x", 9)
    assert kept.state.first_events == ()
    held = kept.state._replace(first_events=(KeptEvent(4, "e", "x"),))
    assert codec.decode(codec.encode(KeyState(held))).state == held


@pytest.mark.parametrize("most", [0, 10_001])
def test_the_number_of_events_is_bounded(most: int, tmp_path: Any) -> None:
    yaml = "stream: user_sessions\ndescription: d\nowner: o\nsource: {topic: t}\ntables: [sessions]\n"
    settings_of = f"event_time: {{allowed_lateness: 2m}}\nlogic: {{max_session_events: {most}}}\n"
    (tmp_path / "user_sessions.yaml").write_text(yaml + settings_of)
    with pytest.raises(SpecError, match=r"logic\.max_session_events: expected a number of at"):
        load_spec("user_sessions", tmp_path)


def test_a_repeated_comparison_of_kept_events_is_by_time_and_then_by_id() -> None:
    kept: tuple[KeptEvent, ...] = ()
    for one in (event("b", 5), event("a", 5), event("c", 1)):
        kept = keep(kept, one, 2)
    assert [(one.event_ms, one.event_id) for one in kept] == [(1, "c"), (5, "a")]
