"""Reported consequences of changes in parts of a state and in held events, mostly stored by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import pytest

from stateward.runtime.api.key_logic import KeyState
from stateward.runtime.keyed.codec import KeyStateCodec
from stateward.state.compatibility.findings import Level
from stateward.state.compatibility.shape import event_shape, merged, state_shape
from stateward.state.compatibility.shape_changes import changes, shape_text
from tests.support.state.shapes import EVOLVES, FAILS, MIGRATE, Case, Event, check, judged, read, state


class Item(NamedTuple):
    """Part of a state: stored as an array."""

    at_ms: int
    name: str


class LongerItem(NamedTuple):
    """With one more field."""

    at_ms: int
    name: str
    size: int = 1


class OtherItem(NamedTuple):
    """With other names."""

    at_ms: int
    label: str


class ShortItem(NamedTuple):
    """With one less."""

    at_ms: int


@dataclass
class Note:
    """Part of a state: stored as an object."""

    text: str
    count: int = 0


@dataclass
class ShortNote:
    """With one less."""

    text: str


CASES = [
    Case(
        "a nested tuple that grows at its end",
        state(n=tuple[Item, ...]),
        ((Item(1, "x"),),),
        state(n=tuple[LongerItem, ...]),
        ((LongerItem(1, "x", 1),),),
        EVOLVES,
        "state.n[].size is new",
    ),
    Case(
        "a nested tuple with another name",
        state(n=tuple[Item, ...]),
        ((Item(1, "x"),),),
        state(n=tuple[OtherItem, ...]),
        ((OtherItem(1, "x"),),),
        MIGRATE,
        "state.n[][1] has another name",
    ),
    Case(
        "a nested tuple that is shorter",
        state(n=tuple[Item, ...]),
        ((Item(1, "x"),),),
        state(n=tuple[ShortItem, ...]),
        FAILS,
        MIGRATE,
        "state.n[].name is gone",
    ),
    Case(
        "a nested tuple that may be null and grows",
        state(n=(Item | None)),
        (Item(1, "x"),),
        state(n=(LongerItem | None)),
        (LongerItem(1, "x", 1),),
        EVOLVES,
        "state.n.size is new",
    ),
    Case(
        "a nested dataclass that loses a field",
        state(n=Note),
        (Note("x", 4),),
        state(n=ShortNote),
        (ShortNote("x"),),
        MIGRATE,
        "state.n.count is gone",
    ),
    Case(
        "a tuple becomes a dataclass",
        state(n=Item),
        (Item(1, "x"),),
        state(n=Note),
        FAILS,
        MIGRATE,
        "state.n has another type",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_reported_consequence_is_what_decoding_does(case: Case) -> None:
    check(case)


class Counted(NamedTuple):
    """One part."""

    hits: int
    misses: int


class Swapped(NamedTuple):
    """The same in another order."""

    misses: int
    hits: int


def test_reordered_fields_of_a_nested_tuple_are_silently_swapped() -> None:
    old, new = state(n=Counted), state(n=Swapped)
    assert read(old, new, (Counted(1, 9),)) == (Swapped(misses=1, hits=9),)
    found = judged(old, new)
    assert [(change.level, change.fails) for change in found] == [(MIGRATE, False)] * 2
    assert "silently read as misses" in found[0].consequence


class LongerEvent(NamedTuple):
    """One more field, with a default."""

    event_id: str
    event_ms: int
    kind: str
    amount: int = 0


class OtherEvent(NamedTuple):
    """Another field in the same place."""

    event_id: str
    event_ms: int
    reason: str


class ShortEvent(NamedTuple):
    """One field less."""

    event_id: str
    event_ms: int


WHOLE = state(first_ms=int)


@pytest.mark.parametrize(
    ("kind", "held", "level", "fails"),
    [
        (LongerEvent, (LongerEvent("e", 1, "x", 0),), EVOLVES, False),
        (OtherEvent, (OtherEvent("e", 1, "x"),), MIGRATE, False),
        (ShortEvent, FAILS, MIGRATE, True),
    ],
)
def test_held_events_are_read_by_position(kind: Any, held: Any, level: Level, fails: bool) -> None:
    text = KeyStateCodec(WHOLE, Event).encode(KeyState(WHOLE(5), (Event("e", 1, "x"),)))
    try:
        found: Any = KeyStateCodec(WHOLE, kind).decode(text).held
    except msgspec.ValidationError:
        found = FAILS
    assert found == held
    (change,) = changes(event_shape(Event), event_shape(kind), "held event")
    assert (change.level, change.fails) == (level, fails)


def test_absent_fields_are_marked_within_parts() -> None:
    old = {"any_of": [event_shape(Item), "null"]}
    known: Any = merged(
        {"map": ["str", old]}, {"map": ["str", {"any_of": [event_shape(LongerItem), "null"]}]}
    )
    assert [field.get("absent") for field in known["map"][1]["any_of"][0]["fields"]] == [None, None, True]
    assert merged(known, known) == known, "the mark stays"


def test_a_type_that_is_part_of_itself_has_a_shape() -> None:
    shape: Any = state_shape(state(n=Tree))
    assert shape["fields"][0]["type"]["fields"][1]["type"] == {"array": {"again": "Tree"}}
    assert shape_text(shape["fields"][0]["type"]) == "Tree"


class Tree(NamedTuple):
    """A part that has parts."""

    name: str
    parts: tuple[Tree, ...] = ()
