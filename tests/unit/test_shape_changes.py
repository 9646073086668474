"""What is said of a change of types is what the real codec does with texts of the old ones."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal, NamedTuple

import msgspec
import pytest

from spark_jobs.runtime.codec import KeptCodec
from spark_jobs.runtime.keyed import Kept
from spark_jobs.state.findings import Level
from spark_jobs.state.shape import event_shape, merged, state_shape
from spark_jobs.state.shape_changes import Change, changes, text_of

EVOLVES, MIGRATE = Level.EVOLVES, Level.NEEDS_MIGRATION
FAILS = "fails"


class Event(NamedTuple):
    """An event of the stream under test."""

    event_id: str
    event_ms: int
    kind: str


class Colour(StrEnum):
    """Some."""

    RED = "red"
    BLUE = "blue"


class Red(StrEnum):
    """Fewer."""

    RED = "red"


class Item(NamedTuple):
    """Part of a state: kept as an array."""

    at_ms: int
    name: str


class LongerItem(NamedTuple):
    """With one more field."""

    at_ms: int
    name: str
    count: int = 1


class OtherItem(NamedTuple):
    """With other names."""

    at_ms: int
    label: str


class ShortItem(NamedTuple):
    """With one less."""

    at_ms: int


@dataclass
class Note:
    """Part of a state: kept as an object."""

    text: str
    count: int = 0


@dataclass
class ShortNote:
    """With one less."""

    text: str


def state(**fields: Any) -> Any:
    """A named tuple; a field is its type, or a pair of type and default."""
    kinds = {name: part[0] if isinstance(part, tuple) else part for name, part in fields.items()}
    made: Any = NamedTuple("State", list(kinds.items()))  # type: ignore[misc]
    defaults = {name: part[1] for name, part in fields.items() if isinstance(part, tuple)}
    if defaults:
        made.__new__.__defaults__ = tuple(defaults.values())
        made._field_defaults = defaults
    return made


def judged(old: Any, new: Any) -> list[Change]:
    return list(changes(state_shape(old), state_shape(new), "state"))


def read(old: Any, new: Any, values: tuple[Any, ...]) -> Any:
    """The state that was written by the old codec, as the new one reads it, or `FAILS`."""
    text = KeptCodec(old, Event).encode(Kept(old(*values)))
    try:
        return tuple(KeptCodec(new, Event).decode(text).state or ())
    except msgspec.ValidationError:
        return FAILS


OLD = state(first_ms=int, count=int, name=str)
VALUES = (5, 3, "x")


class Case(NamedTuple):
    """A name, the old type and a value of it, the new type, what that reads, and what is said."""

    name: str
    old: Any
    values: tuple[Any, ...]
    new: Any
    reads: Any
    level: Level
    what: str


CASES = [
    Case(
        "a field with a default is added",
        OLD,
        VALUES,
        state(first_ms=int, count=int, name=str, extra=(int, 7)),
        (5, 3, "x", 7),
        EVOLVES,
        "state.extra is new",
    ),
    Case(
        "a field without a default is added",
        OLD,
        VALUES,
        state(first_ms=int, count=int, name=str, extra=int),
        FAILS,
        MIGRATE,
        "state.extra is new",
    ),
    Case(
        "a field is removed",
        OLD,
        VALUES,
        state(first_ms=int, name=str),
        (5, "x"),
        MIGRATE,
        "state.count is gone",
    ),
    Case(
        "a field is renamed, with a default",
        OLD,
        VALUES,
        state(first_ms=int, name=str, total=(int, 0)),
        (5, "x", 0),
        MIGRATE,
        "state.count looks renamed to total",
    ),
    Case(
        "a field is renamed",
        OLD,
        VALUES,
        state(first_ms=int, total=int, name=str),
        FAILS,
        MIGRATE,
        "state.count looks renamed to total",
    ),
    Case("int to float", state(n=int), (3,), state(n=float), (3.0,), EVOLVES, "state.n has another type"),
    Case(
        "int to float, large",
        state(n=int),
        (2**53 + 1,),
        state(n=float),
        (float(2**53),),
        EVOLVES,
        "state.n has another type",
    ),
    Case("float to int", state(n=float), (3.0,), state(n=int), FAILS, MIGRATE, "state.n has another type"),
    Case("int to text", state(n=int), (3,), state(n=str), FAILS, MIGRATE, "state.n has another type"),
    Case("text to int", state(n=str), ("3",), state(n=int), FAILS, MIGRATE, "state.n has another type"),
    Case("flag to int", state(n=bool), (True,), state(n=int), FAILS, MIGRATE, "state.n has another type"),
    Case(
        "int to decimal", state(n=str), ("a",), state(n=Decimal), FAILS, MIGRATE, "state.n has another type"
    ),
    Case(
        "it may be null from now on",
        state(n=int),
        (3,),
        state(n=int | None),
        (3,),
        EVOLVES,
        "state.n has another type",
    ),
    Case(
        "it may not be null any more",
        state(n=int | None),
        (None,),
        state(n=int),
        FAILS,
        MIGRATE,
        "state.n has another type",
    ),
    Case(
        "an array to a set",
        state(n=tuple[str, ...]),
        (("b", "a", "b"),),
        state(n=frozenset[str]),
        (frozenset("ab"),),
        MIGRATE,
        "state.n has another type",
    ),
    Case(
        "a set to an array",
        state(n=frozenset[str]),
        (frozenset("a"),),
        state(n=tuple[str, ...]),
        (("a",),),
        EVOLVES,
        "state.n has another type",
    ),
    Case(
        "a fixed tuple that grows",
        state(n=tuple[int, int]),
        ((1, 2),),
        state(n=tuple[int, int, int]),
        FAILS,
        MIGRATE,
        "state.n has another length",
    ),
    Case(
        "the values of a map",
        state(n=dict[str, int]),
        ({"a": 1},),
        state(n=dict[str, str]),
        FAILS,
        MIGRATE,
        "state.n[1] has another type",
    ),
    Case(
        "a member of an enumeration is gone",
        state(n=Colour),
        (Colour.BLUE,),
        state(n=Red),
        FAILS,
        MIGRATE,
        "state.n has another type",
    ),
    Case(
        "a member of an enumeration is new",
        state(n=Literal["red"]),
        ("red",),
        state(n=Literal["red", "blue"]),
        ("red",),
        EVOLVES,
        "state.n has another type",
    ),
    Case(
        "a nested tuple that grows at its end",
        state(n=tuple[Item, ...]),
        ((Item(1, "x"),),),
        state(n=tuple[LongerItem, ...]),
        ((LongerItem(1, "x", 1),),),
        EVOLVES,
        "state.n[].count is new",
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
        "state.n.count is new",
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
def test_what_is_said_of_a_change_is_what_decoding_does(case: Case) -> None:
    assert read(case.old, case.new, case.values) == case.reads
    (change,) = judged(case.old, case.new)
    assert (change.level, change.what) == (case.level, case.what)
    assert change.fails == (case.reads == FAILS), change.consequence


def test_fields_in_another_order_are_the_same_state() -> None:
    new = state(name=str, count=int, first_ms=int)
    assert judged(OLD, new) == []
    assert read(OLD, new, VALUES) == ("x", 3, 5)


class Counted(NamedTuple):
    """One part."""

    hits: int
    misses: int


class Swapped(NamedTuple):
    """The same in another order."""

    misses: int
    hits: int


def test_fields_of_a_nested_tuple_in_another_order_are_read_as_one_another_in_silence() -> None:
    old, new = state(n=Counted), state(n=Swapped)
    assert read(old, new, (Counted(1, 9),)) == (Swapped(misses=1, hits=9),)
    found = judged(old, new)
    assert [(change.level, change.fails) for change in found] == [(MIGRATE, False)] * 2
    assert "read as misses, in silence" in found[0].consequence


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


@pytest.mark.parametrize(
    ("kind", "held", "level", "fails"),
    [
        (LongerEvent, (LongerEvent("e", 1, "x", 0),), EVOLVES, False),
        (OtherEvent, (OtherEvent("e", 1, "x"),), MIGRATE, False),
        (ShortEvent, FAILS, MIGRATE, True),
    ],
)
def test_held_events_are_read_by_position(kind: Any, held: Any, level: Level, fails: bool) -> None:
    text = KeptCodec(OLD, Event).encode(Kept(OLD(*VALUES), (Event("e", 1, "x"),)))
    try:
        found: Any = KeptCodec(OLD, kind).decode(text).held
    except msgspec.ValidationError:
        found = FAILS
    assert found == held
    (change,) = changes(event_shape(Event), event_shape(kind), "held event")
    assert (change.level, change.fails) == (level, fails)


def test_a_changed_default_is_harmless_where_every_state_has_the_field() -> None:
    old, new = state(n=int, count=(int, 0)), state(n=int, count=(int, 9))
    assert read(old, new, (1, 0)) == (1, 0)
    (change,) = judged(old, new)
    assert change.level == EVOLVES


def test_a_changed_default_changes_states_that_were_written_before_the_field_came() -> None:
    first, second, third = state(n=int), state(n=int, count=(int, 0)), state(n=int, count=(int, 9))
    assert read(first, second, (1,)) == (1, 0)
    assert read(first, third, (1,)) == (1, 9)
    known = merged(state_shape(first), state_shape(second))
    (change,) = changes(known, state_shape(third), "state")
    assert (change.level, change.fails) == (MIGRATE, False)
    assert "reads 9 instead of 0" in change.consequence

    (change,) = changes(known, state_shape(state(n=int, count=int)), "state")
    assert (change.level, change.fails) == (MIGRATE, True)
    assert read(first, state(n=int, count=int), (1,)) == FAILS


def test_what_came_later_is_remembered_within_parts() -> None:
    old = {"any_of": [event_shape(Item), "null"]}
    known: Any = merged(
        {"map": ["str", old]}, {"map": ["str", {"any_of": [event_shape(LongerItem), "null"]}]}
    )
    assert [field.get("absent") for field in known["map"][1]["any_of"][0]["fields"]] == [None, None, True]
    assert merged(known, known) == known, "and stays remembered"


def test_a_type_that_is_part_of_itself_has_a_shape() -> None:
    shape: Any = state_shape(state(n=Tree))
    assert shape["fields"][0]["type"]["fields"][1]["type"] == {"array": {"again": "Tree"}}
    assert text_of(shape["fields"][0]["type"]) == "Tree"


class Tree(NamedTuple):
    """A part that has parts."""

    name: str
    parts: tuple[Tree, ...] = ()
