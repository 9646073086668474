"""Describes the differences between two states of a key. Pure.

A state is the object decoded from its JSON text (`stateward.runtime.keyed.codec`), or a row of a store of
Spark's built-in operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

State = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """One field that changed; None where it is missing."""

    field: str
    before: Any
    after: Any


def changes(before: State | None, after: State | None) -> tuple[Change, ...]:
    """The fields that differ, those of nested objects by path, ordered by name.

    Lists such as held events are compared as sets: ``before`` has the removed items, ``after`` the added
    ones.
    """
    old, new = flat(before or {}), flat(after or {})
    found = []
    for field in sorted(old.keys() | new.keys()):
        was, now = old.get(field), new.get(field)
        if was == now:
            continue
        if isinstance(was or now, list) and isinstance(was or [], list) and isinstance(now or [], list):
            gone = [item for item in was or [] if item not in (now or [])]
            come = [item for item in now or [] if item not in (was or [])]
            found.append(Change(field, gone or None, come or None))
        else:
            found.append(Change(field, was, now))
    return tuple(found)


def flat(state: State, prefix: str = "") -> dict[str, Any]:
    """The fields of an object by path: ``{"state": {"count": 1}}`` is ``{"state.count": 1}``."""
    fields: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, Mapping):
            fields |= flat(value, f"{prefix}{name}.")
        else:
            fields[prefix + name] = value
    return fields


def reasons(before: State | None, after: State | None) -> str:
    """Infer from a change of state what happened to a key of a keyed stream."""
    if before == after:
        return "nothing changed"
    old, new = before or {}, after or {}
    held_before, held_after = (_items(state, "held") for state in (old, new))
    come = [event for event in held_after if event not in held_before]
    gone = [event for event in held_before if event not in held_after]
    ids_before, ids_after = (_items(state, "recent") for state in (old, new))
    folded = [seen for seen in ids_after if seen not in ids_before]
    said = []
    if before is None:
        said.append("the key starts")
    if come:
        said.append(f"{_count(len(come), 'event')} held until the watermark has passed")
    if gone:
        said.append(f"{_count(len(gone), 'held event')} folded")
    elif folded:
        said.append(f"{_count(len(folded), 'event')} folded on arrival")
    said += _of_state(old.get("state"), new.get("state"), was_folded=bool(gone or folded))
    forgotten = len([seen for seen in ids_before if seen not in ids_after])
    if forgotten:
        said.append(f"{_count(forgotten, 'id')} forgotten")
    if after is None:
        said.append("the key is removed")
    return "; ".join(said) or "other fields changed"


def _of_state(before: Any, after: Any, *, was_folded: bool) -> list[str]:
    if before == after:
        return []
    if before is None:
        return ["its state starts"]
    if after is None:
        return ["its state ends"]
    return ["its state changed"] if was_folded else ["its state changed without an event: a deadline passed"]


def _items(state: State, name: str) -> list[Any]:
    return list(state.get(name) or ())


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
