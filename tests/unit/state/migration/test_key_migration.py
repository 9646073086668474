"""Conversion of keys and states, also where keys meet."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateward.runtime.api.key_step import KeyStep, key_chain
from stateward.runtime.api.state_step import MissingStepError, PlainState
from stateward.runtime.watermark.admission import Limits
from stateward.state.migration.key_migration import KeyMigration, KeyMigrationError, KeyMigrator
from stateward.state.reader.key_evaluator import KeyEvaluator
from tests.support.streams.orders import FIRST, SECOND, OrderLogic, OrderV3, StateV3

LIMITS = Limits(100, max_held=100)
PREFIXED = KeyStep(1, "a key says what it is", key=lambda key: f"customer-{key}")
LAST = KeyStep(2, "by the last digit", key=lambda key: key[-1])


def added(key: str, one: PlainState, other: PlainState) -> PlainState:
    total = {name: one[name] + other[name] for name in ("orders", "units", "cents", "coupons")}
    times = {
        "first_ms": min(one["first_ms"], other["first_ms"]),
        "last_ms": max(one["last_ms"], other["last_ms"]),
    }
    return {**times, **total}


def migrator(*steps: KeyStep) -> KeyMigrator:
    evaluator = KeyEvaluator(OrderLogic(3), StateV3, OrderV3, LIMITS)
    return KeyMigration("orders", evaluator, steps, 3, (FIRST, SECOND)).begin()


def kept(state: dict[str, Any] | None = None, **parts: Any) -> bytes:
    return json.dumps({**({} if state is None else {"state": state}), **parts}).encode()


def total(cents: int, at: int = 0) -> dict[str, Any]:
    return {"first_ms": at, "last_ms": at, "orders": 1, "units": 0, "cents": cents, "coupons": 0}


def test_a_key_goes_through_its_steps_in_order() -> None:
    assert migrator(PREFIXED, LAST).key("19") == "9"
    assert migrator(PREFIXED, KeyStep(2, "as they are")).key("19") == "customer-19"
    assert migrator().key("19") == "19"


@pytest.mark.parametrize("key", [lambda key: 7, lambda key: "", lambda key: {}[key], lambda key: None])
def test_an_invalid_key_is_reported(key: Callable[[str], Any]) -> None:
    with pytest.raises(
        KeyMigrationError, match=r"key \*\*\*\(2\): expected KeyStep\(1, \.\.\.\) to return a non-empty text"
    ):
        migrator(KeyStep(1, "broken", key=key)).key("19")


def test_a_state_is_upgraded_with_its_held_events() -> None:
    old = kept(
        {"first_ms": 1, "last_ms": 2, "orders": 3, "total": "4.05"},
        held=[["e", 9, "1.50"]],
        recent=[["a", 2]],
    )
    assert json.loads(migrator(PREFIXED).state(1, "customer-19", old)) == {
        "state": {"first_ms": 1, "last_ms": 2, "orders": 3, "units": 4, "cents": 5, "coupons": 0},
        "held": [["e", 9, 1, 50, False]],
        "recent": [["a", 2]],
    }


def test_keys_that_meet_keep_held_events_and_ids_once() -> None:
    meeting = KeyStep(1, "one for all", key=lambda key: "all", merge=added)
    held = [["b", 20, 1, 0, False], ["c", 10, 1, 0, False]]
    one = kept(total(5, 3), held=held[:1], recent=[["x", 3]], floor_ms=4)
    other = kept(total(7, 9), held=[held[1], ["x", 30, 1, 0, False]], recent=[["y", 1]])
    merged = json.loads(migrator(meeting).merged("all", [one, other]))
    assert merged["state"] == {**total(12, 3), "last_ms": 9, "orders": 2}
    assert merged["held"] == [held[1], held[0]], "in order, and without events that the other has folded"
    assert merged["recent"] == [["y", 1], ["x", 3]]
    assert merged["floor_ms"] == 4


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(0, 99)), min_size=2, max_size=6))
def test_nothing_is_lost_when_several_meet(cents: list[int | None]) -> None:
    meeting = KeyStep(1, "one for all", key=lambda key: "all", merge=added)
    texts = [
        kept(None if one is None else total(one), recent=[[f"e{number}", number]])
        for number, one in enumerate(cents)
    ]
    merged = json.loads(migrator(meeting).merged("all", texts))
    known = [one for one in cents if one is not None]
    assert (merged.get("state") or {"cents": 0, "orders": 0})["cents"] == sum(known)
    assert len(merged["recent"]) == len(cents)


@pytest.mark.parametrize(
    ("merge", "message"),
    [
        (None, r"key \*\*\*\(3\) has several old keys, and no step merges them"),
        (
            lambda key, one, other: {"total": "1"},
            "expected the merge of their states to be a state of",
        ),
        (lambda key, one, other: one["none"], "found KeyError: 'none'; correct it in the stream's KeyStep"),
    ],
)
def test_a_merge_that_returns_no_state_is_reported(merge: Any, message: str) -> None:
    meeting = migrator(KeyStep(1, "one for all", key=lambda key: "all", merge=merge))
    with pytest.raises(KeyMigrationError, match=message):
        meeting.merged("all", [kept(total(1)), kept(total(2))])


def test_a_chain_of_keys_has_no_gap_and_no_way_back() -> None:
    assert key_chain((LAST, PREFIXED), 1, 3) == (PREFIXED, LAST)
    assert key_chain((LAST, PREFIXED), 3, 3) == ()
    with pytest.raises(MissingStepError, match="found none from 1: declare KeyStep"):
        key_chain((LAST,), 1, 3)
    with pytest.raises(MissingStepError, match="found version 3: a newer release"):
        key_chain((LAST,), 3, 2)
