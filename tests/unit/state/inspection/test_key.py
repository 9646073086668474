"""`explain` without an engine: the changes of a key, their causes, and its future by the stream's logic."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from spark_jobs.user_activity.declaration import JOB as ACTIVITY
from spark_jobs.user_sessions.logic import SessionLogic, open_session
from spark_jobs.user_sessions.model import ClosedSession, OpenSession, SessionEvent
from stateward.runtime.api.key_logic import KeyState, offset_ms
from stateward.runtime.api.state_step import StateStep
from stateward.runtime.watermark.admission import Limits, Seen
from stateward.state.inspection.key_report import HistorySource
from stateward.state.inspection.keyed_history import _history
from stateward.state.inspection.state_changes import Change, changes, flat, reasons
from stateward.state.reader.key_evaluator import KeyEvaluator, UnreadableError
from stateward.state.reader.retained_batches import Retained
from stateward.state.reader.state_reader import newest
from stateward.state.verbs.explain import base_batch, feeds

GAP = 1000
LIMITS = Limits(lateness_ms=100, max_held=10)
RULE = KeyEvaluator(SessionLogic(GAP), OpenSession, SessionEvent, LIMITS, version=1)
EVENT = SessionEvent("a", 500, "view")


def test_nested_fields_are_reported_by_path() -> None:
    before = {"state": {"count": 1, "last_ms": 5}, "floor_ms": 3}
    after = {"state": {"count": 2, "last_ms": 5}}
    assert changes(before, after) == (Change("floor_ms", 3, None), Change("state.count", 1, 2))
    assert flat({"a": {"b": {"c": 1}}, "d": []}) == {"a.b.c": 1, "d": []}


def test_lists_report_only_added_and_removed_items() -> None:
    before = {"held": [["a", 1], ["b", 2]]}
    after = {"held": [["b", 2], ["c", 3]]}
    assert changes(before, after) == (Change("held", [["a", 1]], [["c", 3]]),)
    assert changes(None, {"held": [["a", 1]]}) == (Change("held", None, [["a", 1]]),)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (None, {"held": [["a", 1]]}, "the key starts; 1 event held until the watermark has passed"),
        (
            {"held": [["a", 1]]},
            {"state": {"n": 1}, "recent": [["a", 1]]},
            "1 held event folded; its state starts",
        ),
        (
            {"state": {"n": 1}},
            {"state": {"n": 2}, "recent": [["b", 2]]},
            "1 event folded on arrival; its state changed",
        ),
        ({"state": {"n": 1}}, {"state": {"n": 2}}, "its state changed without an event: a deadline passed"),
        (
            {"state": {"n": 1}, "recent": [["a", 1], ["b", 2]]},
            None,
            "its state ends; 2 ids forgotten; the key is removed",
        ),
        ({"floor_ms": 1}, {"floor_ms": 2}, "other fields changed"),
        ({"floor_ms": 1}, {"floor_ms": 1}, "nothing changed"),
    ],
)
def test_what_must_have_happened(
    before: dict[str, Any] | None, after: dict[str, Any] | None, said: str
) -> None:
    assert reasons(before, after) == said


def test_an_open_session_ends_at_its_gap_and_leaves_nothing() -> None:
    kept: KeyState[Any, Any] = KeyState(state=open_session("u", EVENT, GAP))
    (step,) = RULE.future("u", kept, watermark_ms=600)
    assert (step.at_ms, step.after.is_empty) == (1500, True)
    assert step.cause == "the deadline of its state passes"
    (row,) = step.rows
    assert isinstance(row, ClosedSession)
    assert (row.close_reason, row.closed_ms) == ("TIMEOUT", 1500)


def test_a_held_event_is_folded_once_the_watermark_has_passed_it() -> None:
    last = SessionEvent("b", 700, "view", is_last=True)
    kept: KeyState[Any, Any] = KeyState(
        state=open_session("u", EVENT, GAP), held=(last,), recent=(Seen("a", 500),)
    )
    ends, forgets = RULE.future("u", kept, watermark_ms=0)
    assert (ends.at_ms, ends.cause) == (701, "the watermark passes a held event")
    assert [row.close_reason for row in ends.rows if isinstance(row, ClosedSession)] == ["ENDED"]
    assert (forgets.at_ms, forgets.after.is_empty) == (801, True)
    assert forgets.cause == "its remembered ids expire"


def test_a_state_is_settled_by_the_events_that_the_watermark_has_passed() -> None:
    kept = KeyState[OpenSession, SessionEvent](held=(EVENT, SessionEvent("b", 900, "view")))
    settled = RULE.settled("u", kept, watermark_ms=901)
    assert settled.state is not None
    assert (settled.state.event_count, settled.held) == (2, ())
    half = RULE.settled("u", kept, watermark_ms=900)
    assert half.state is not None
    assert (half.state.event_count, half.held) == (1, kept.held[1:])


def test_an_overdue_change_keeps_its_time() -> None:
    kept: KeyState[Any, Any] = KeyState(state=open_session("u", EVENT, GAP))
    (step,) = RULE.future("u", kept, watermark_ms=99_999)
    assert step.at_ms == 1500


def test_jitter_delays_future_changes() -> None:
    evaluator = KeyEvaluator(RULE.logic, OpenSession, SessionEvent, Limits(100, 10, jitter_ms=500), version=1)
    (step,) = evaluator.future("u", KeyState(state=open_session("u", EVENT, GAP)), watermark_ms=0)
    assert step.at_ms == 1500 + offset_ms("u", 500)


def test_a_codec_reads_what_the_stream_has_written() -> None:
    kept: KeyState[Any, Any] = KeyState(state=open_session("u", EVENT, GAP), held=(EVENT,))
    reader = RULE.reader()
    assert reader.read("u", reader.encode(kept), 1) == kept


def longer(key: str, state: dict[str, Any]) -> dict[str, Any]:
    """An older release stored no gap, and had another name for the count."""
    return {**state, "event_count": state.pop("events"), "gap_ms": 2 * GAP}


def test_a_state_of_an_older_version_is_upgraded() -> None:
    evaluator = replace(RULE, version=3, steps=(StateStep(2, "the gap is kept", state=longer),))
    kept: KeyState[Any, Any] = KeyState(state=open_session("u", EVENT, GAP))
    stored = json.loads(evaluator.reader().encode(kept))
    stored["state"]["events"] = stored["state"].pop("event_count")
    del stored["state"]["gap_ms"]
    old = json.dumps(stored).encode()

    read = evaluator.reader().read("u", old, 2)

    assert read == KeyState(state=open_session("u", EVENT, 2 * GAP))
    assert evaluator.wake_ms("u", read) == 500 + 2 * GAP
    for version in (1, 3, 4):
        with pytest.raises(UnreadableError):
            evaluator.reader().read("u", old, version)
    assert ACTIVITY.state_type is not OpenSession


def test_the_newest_chunk_of_a_key_wins_and_removed_keys_are_left_out() -> None:
    chunks = [(2, b'{"a": {"n": 2}, "b": null}'), (0, b'{"a": {"n": 0}, "b": {"n": 0}, "c": {"n": 0}}')]
    assert newest(chunks) == {"a": (2, b'{"n": 2}'), "c": (0, b'{"n": 0}')}
    assert newest([]) == {}


def found(batches: range, batch_id: int) -> Retained:
    return Retained("s", "file:///c", tuple(batches), batch_id, 0, 0)


def test_a_change_feed_leaves_out_what_a_repartition_wrote() -> None:
    assert feeds(found(range(10), 9), []) == [(0, 9)]
    assert feeds(found(range(10), 9), [4]) == [(0, 3), (5, 9)]
    assert feeds(found(range(5, 10), 8), [6, 7]) == [(8, 8)]
    assert feeds(found(range(5, 10), 5), []) == []
    assert (base_batch(found(range(10), 9)), base_batch(found(range(5, 10), 9))) == (None, 5)


def test_a_batch_that_merges_chunks_writes_a_later_change_under_an_earlier_number() -> None:
    """Two calls of a bucket in one batch: the second merges the chunk of the first into an older one."""

    def row(batch: int, seq: int, count: int) -> dict[str, Any]:
        return {"batch": batch, "seq": seq, "state": json.dumps({"state": {"n": count}}).encode()}

    past = HistorySource(None, (), {})
    fed = [row(1, 9, 1), row(2, 10, 2), row(2, 5, 3), row(3, 6, 3)]
    found = list(_history("k", None, fed, past))
    assert [(change.batch_id, change.changes) for change in found] == [
        (1, (Change("state.n", None, 1),)),
        (2, (Change("state.n", 1, 2),)),
        (2, (Change("state.n", 2, 3),)),
    ]
