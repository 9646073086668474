"""Jitter of timeouts: when a timeout fires, and that nothing else changes."""

from __future__ import annotations

from collections import Counter

import pytest

from spark_jobs.user_sessions.logic import SessionLogic
from spark_jobs.user_sessions.model import OpenSession, SessionEvent
from stateward.runtime.api.key_logic import KeyResult, KeyState, advance, offset_ms
from stateward.runtime.ingest.packed_format import bucket_of
from stateward.runtime.watermark.admission import Limits

LOGIC = SessionLogic(1000)
JITTER = 600
KEY = "user-1"
OFFSET = offset_ms(KEY, JITTER)
DEADLINE = 1100
LIMITS = Limits(lateness_ms=100, max_held=100, jitter_ms=JITTER)


def event(event_id: str, at: int) -> SessionEvent:
    return SessionEvent(event_id, at, "view")


def opened(*held: SessionEvent) -> KeyState[OpenSession, SessionEvent]:
    """A session of one event at 100, due at `DEADLINE`."""
    turn = look(KeyState(), event("a", 100), watermark=100)
    kept = look(turn.kept, watermark=101).kept
    assert kept.state is not None
    return kept._replace(held=held, recent=())


def look(
    kept: KeyState[OpenSession, SessionEvent],
    *arrivals: SessionEvent,
    watermark: int,
    limits: Limits = LIMITS,
) -> KeyResult[OpenSession, SessionEvent]:
    return advance(LOGIC, KEY, kept, arrivals, watermark_ms=watermark, limits=limits)


def test_the_key_of_these_tests_waits() -> None:
    assert 2 < OFFSET < JITTER


def test_a_timeout_waits_for_the_offset_and_its_row_says_the_deadline() -> None:
    kept = opened()
    assert look(kept, watermark=DEADLINE + OFFSET - 1).rows == []

    turn = look(kept, watermark=DEADLINE + OFFSET)

    assert [row.closed_ms for row in turn.rows if hasattr(row, "closed_ms")] == [DEADLINE]
    assert turn.kept.is_empty


def test_without_jitter_a_timeout_is_acted_on_at_its_deadline() -> None:
    plain = Limits(100, 100)
    assert look(opened(), watermark=DEADLINE - 1, limits=plain).rows == []
    assert len(look(opened(), watermark=DEADLINE, limits=plain).rows) == 1


@pytest.mark.parametrize(
    ("at", "sessions"),
    [(DEADLINE - 1, 0), (DEADLINE, 1), (DEADLINE + OFFSET + 50, 1)],
    ids=["before the deadline", "at the deadline, before the offset", "after the offset"],
)
def test_an_event_expires_a_state_by_its_time_whatever_the_offset(at: int, sessions: int) -> None:
    turn = look(opened(event("b", at)), watermark=at + 1)

    assert [row[-1] for row in turn.rows] == [DEADLINE] * sessions
    assert turn.kept.state is not None
    assert turn.kept.state.event_count == 2 - sessions


def test_offsets_are_below_the_jitter_and_spread_evenly_within_each_bucket() -> None:
    buckets, keys, tenths = 64, 32_000, 10
    found = Counter(
        (bucket_of(key, buckets), offset_ms(key, JITTER) * tenths // JITTER)
        for key in (f"user-{number:06}" for number in range(keys))
    )
    assert {tenth for _, tenth in found} == set(range(tenths))
    assert len(found) == buckets * tenths
    assert max(found.values()) <= 3 * keys / (buckets * tenths)


@pytest.mark.parametrize("jitter_ms", [1, 7, 1000, 86_400_000])
def test_an_offset_is_the_same_each_time_and_in_its_bounds(jitter_ms: int) -> None:
    for number in range(200):
        offset = offset_ms(f"k{number}", jitter_ms)
        assert 0 <= offset < jitter_ms
        assert offset == offset_ms(f"k{number}", jitter_ms)
