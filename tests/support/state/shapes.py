"""Types of states of two releases: a text of the old one, as the new one reads it."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from stateward.runtime.api.key_logic import KeyState
from stateward.runtime.keyed.codec import KeyStateCodec
from stateward.state.compatibility.findings import Level
from stateward.state.compatibility.shape import state_shape
from stateward.state.compatibility.shape_changes import Change, changes

EVOLVES, MIGRATE = Level.EVOLVES, Level.NEEDS_MIGRATION
FAILS = "fails"


class Event(NamedTuple):
    """An event of the stream under test."""

    event_id: str
    event_ms: int
    kind: str


def state(**fields: Any) -> Any:
    """A named tuple; a field is its type, or a pair of type and default."""
    kinds = {name: part[0] if isinstance(part, tuple) else part for name, part in fields.items()}
    made: Any = NamedTuple("State", list(kinds.items()))  # type: ignore[misc]  # mypy expects a literal
    defaults = {name: part[1] for name, part in fields.items() if isinstance(part, tuple)}
    if defaults:
        made.__new__.__defaults__ = tuple(defaults.values())
        made._field_defaults = defaults
    return made


def judged(old: Any, new: Any) -> list[Change]:
    return list(changes(state_shape(old), state_shape(new), "state"))


def read(old: Any, new: Any, values: tuple[Any, ...]) -> Any:
    """The state that was written by the old codec, as the new one reads it, or `FAILS`."""
    text = KeyStateCodec(old, Event).encode(KeyState(old(*values)))
    try:
        return tuple(KeyStateCodec(new, Event).decode(text).state or ())
    except msgspec.ValidationError:
        return FAILS


class Case(NamedTuple):
    """A name, the old type and a value of it, the new type, what that reads, and what is said."""

    name: str
    old: Any
    values: tuple[Any, ...]
    new: Any
    reads: Any
    level: Level
    what: str


def check(case: Case) -> None:
    """What is said of the change is what decoding does."""
    assert read(case.old, case.new, case.values) == case.reads
    (change,) = judged(case.old, case.new)
    assert (change.level, change.what) == (case.level, case.what)
    assert change.fails == (case.reads == FAILS), change.consequence
