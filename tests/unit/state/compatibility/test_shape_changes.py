"""The reported consequence of a type change is what the codec does with old texts."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Literal

import pytest

from stateward.state.compatibility.shape import merged, state_shape
from stateward.state.compatibility.shape_changes import changes
from tests.support.state.shapes import EVOLVES, FAILS, MIGRATE, Case, check, judged, read, state


class Colour(StrEnum):
    """Some."""

    RED = "red"
    BLUE = "blue"


class Red(StrEnum):
    """Fewer."""

    RED = "red"


OLD = state(first_ms=int, count=int, name=str)
VALUES = (5, 3, "x")


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
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_reported_consequence_is_what_decoding_does(case: Case) -> None:
    check(case)


def test_fields_in_another_order_are_the_same_state() -> None:
    new = state(name=str, count=int, first_ms=int)
    assert judged(OLD, new) == []
    assert read(OLD, new, VALUES) == ("x", 3, 5)


def test_a_changed_default_is_harmless_where_every_state_has_the_field() -> None:
    old, new = state(n=int, count=(int, 0)), state(n=int, count=(int, 9))
    assert read(old, new, (1, 0)) == (1, 0)
    (change,) = judged(old, new)
    assert change.level == EVOLVES


def test_a_changed_default_changes_states_that_lack_the_field() -> None:
    first, second, third = state(n=int), state(n=int, count=(int, 0)), state(n=int, count=(int, 9))
    assert read(first, second, (1,)) == (1, 0)
    assert read(first, third, (1,)) == (1, 9)
    known = merged(state_shape(first), state_shape(second))
    (change,) = changes(known, state_shape(third), "state")
    assert (change.level, change.fails) == (MIGRATE, False)
    assert "silently reads 9 instead of 0" in change.consequence

    (change,) = changes(known, state_shape(state(n=int, count=int)), "state")
    assert (change.level, change.fails) == (MIGRATE, True)
    assert read(first, state(n=int, count=int), (1,)) == FAILS
