"""The values that the fields of made-up records have. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stateward.runtime.api.record_fields import EVENT_TIME, Field

_TEXTS = ("a", "b", "c")
_NUMBERS = (1, 2, 3)
_WANTED: dict[str, tuple[Any, str]] = {
    "flag": (bool, "true or false"),
    "list": (list, "an array in JSON"),
    "object": (dict, "an object in JSON"),
}


class TrialError(RuntimeError):
    """The trial cannot be made; the text names the stream, what was found, and what to do."""


def made_values(
    stream: str, fields: Iterable[Field], key: str, given: Mapping[str, Sequence[str]]
) -> dict[str, tuple[Any, ...]]:
    """By field the values that it has at random.

    A field has those that were given, else its `Field.examples`. Without either a required one has some of
    its type, and an optional one is left out.

    Args:
        stream: The stream, for errors.
        fields: All declared fields; those of several topics one after the other.
        key: Name of the key, which is made otherwise.
        given: By field, as text; ``null`` leaves it out.

    Raises:
        TrialError: There is no such field, or a value is not of its type.
    """
    own = dict[str, Field]()
    for one in fields:
        if one.name not in ("event_id", key, EVENT_TIME.name) and (one.name not in own or one.required):
            own[one.name] = one
    if unknown := sorted(given.keys() - own.keys()):
        raise TrialError(
            f"stream {stream}: expected values for some of {', '.join(own) or 'no field'}, found "
            f"{', '.join(unknown)}. Name fields of the stream's declaration in --value."
        )
    found = {}
    for name, one in own.items():
        if name in given:
            found[name] = tuple(_value(stream, one, text) for text in given[name])
        elif one.examples or one.required:
            found[name] = one.examples or _some(one)
    return found


def _some(field: Field) -> tuple[Any, ...]:
    if field.kind == "list":
        return tuple([one] for one in _some(replace(field, kind=field.items or "text", items="")))
    if field.kind == "object":
        return ({},)
    if field.kind == "text":
        return field.one_of or _TEXTS
    if field.kind == "flag":
        return (True, False)
    least = field.minimum if field.minimum is not None else min(_NUMBERS)
    most = field.maximum if field.maximum is not None else max(_NUMBERS)
    return tuple(min(max(number, least), most) for number in _NUMBERS)


def _value(stream: str, field: Field, text: str) -> Any:
    if text == "null":
        return None
    if field.kind == "text" or (field.kind == "time" and field.unit == "iso"):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    wanted, kind = _WANTED.get(field.kind, (int | float, "a number"))
    if not isinstance(value, wanted) or (field.kind in ("number", "time") and isinstance(value, bool)):
        raise TrialError(
            f"stream {stream}: expected values of {field.name} to be {kind}, found {text!r}. Correct --value."
        )
    return value
