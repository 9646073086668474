"""What a stream declares of its records, and why a record can be a dead letter; `parse` judges by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

MAX_TEXT_LENGTH = 1024
TICK_KEY = "\x00stateward-tick"

KINDS = ("text", "flag", "number", "time", "list", "object", "place")
UNITS = ("iso", "s", "ms", "us")
ITEMS = ("text", "flag", "number")


class Reason(StrEnum):
    """Why a record is a dead letter."""

    EMPTY_RECORD = "empty_record"
    RECORD_TOO_LARGE = "record_too_large"
    NOT_UTF8 = "not_utf8"
    MALFORMED_JSON = "malformed_json"
    NOT_AN_OBJECT = "not_an_object"
    MISSING_FIELD = "missing_field"
    WRONG_TYPE = "wrong_type"
    EMPTY_FIELD = "empty_field"
    VALUE_OUT_OF_RANGE = "value_out_of_range"
    UNKNOWN_VALUE = "unknown_value"
    EVENT_TIME_UNPARSABLE = "event_time_unparsable"
    EVENT_TIME_TOO_OLD = "event_time_too_old"
    EVENT_TIME_IN_FUTURE = "event_time_in_future"


@dataclass(frozen=True)
class Field:
    """One field of a stream's input.

    Attributes:
        name: Its name in the stream: an attribute of the parsed record.
        kind: ``text``, ``flag``, ``number``, ``time``, ``list``, ``object``; or ``place`` for an ``event_id``
            that no record has: topic, partition and offset are the id.
        required: Whether it may be absent or null.
        minimum: For numbers: the smallest value allowed.
        maximum: For numbers: the largest value allowed.
        examples: Values in made-up records (`stateward try`), one at random; None leaves the field out.
        path: Where it is in the record, names joined by dots, such as ``user.id``; empty if it has its name.
        unit: For a time: ``iso`` (a text in ISO 8601), or seconds ``s``, milliseconds ``ms`` or microseconds
            ``us`` since 1970 UTC, which are numbers.
        one_of: For a text: the only values that it may have; empty for any.
        items: For a list: ``text``, ``flag`` or ``number``, of which kind all its items are; empty for any.

    Raises:
        ValueError: The kind does not go with one of the others.
    """

    name: str
    kind: str
    required: bool = True
    minimum: float | None = None
    maximum: float | None = None
    examples: tuple[Any, ...] = ()
    path: str = ""
    unit: str = "iso"
    one_of: tuple[str, ...] = ()
    items: str = ""

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise ValueError(f"field {self.name}: {problem}")

    @property
    def steps(self) -> tuple[str, ...]:
        """The names on the way to its value."""
        return tuple(self.place.split("."))

    @property
    def place(self) -> str:
        """The path, or the name of a field that has none."""
        return self.path or self.name

    def _problems(self) -> Iterator[str]:
        for what, found, known in (
            ("kind", self.kind, KINDS),
            ("unit", self.unit, UNITS),
            ("items", self.items, ("", *ITEMS)),
        ):
            if found not in known:
                yield f"expected {what} to be one of {', '.join(filter(None, known))}, found {found!r}"
        for what, is_there, kind in (
            ("unit", self.unit != "iso", "time"),
            ("one_of", bool(self.one_of), "text"),
            ("items", bool(self.items), "list"),
        ):
            if is_there and self.kind != kind:
                yield f"expected {what} for a {kind} only, found it for a {self.kind}. Leave it out."
        if "" in self.steps:
            yield f"expected a path of names joined by dots, such as user.id, found {self.path!r}"
        if self.kind == "place" and (self.name != "event_id" or self.path or not self.required):
            yield "expected the kind place for a required event_id without a path only. Use another kind."


@dataclass(frozen=True)
class Bounds:
    """Limits of a record and of its time; milliseconds and bytes."""

    not_before_ms: int
    max_ahead_ms: int
    max_record_bytes: int


EVENT_TIME = Field("event_time", "time")
PLACE_AS_ID = Field("event_id", "place")
"""The id of events that have none: topic, partition and offset."""


def document(fields: Iterable[Field], values: Mapping[str, Any]) -> dict[str, Any]:
    """A record with the values of fields, by name, at their paths; one without a place is left out."""
    paths = {field.name: field.steps if field.kind != "place" else () for field in fields}
    found = {paths.get(name, (name,)): value for name, value in values.items()}
    return at_paths({steps: value for steps, value in found.items() if steps})


def time_in(unit: str, at_ms: int) -> str | float:
    """A time (ms since 1970 UTC) as a record has it in a unit (`Field.unit`)."""
    if unit == "iso":
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return {"s": at_ms / 1000, "ms": at_ms, "us": at_ms * 1000}[unit]


def at_paths(values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """An object with values at paths."""
    found: dict[str, Any] = {}
    for steps, value in values.items():
        inner = found
        for step in steps[:-1]:
            inner = inner.setdefault(step, {})
        inner[steps[-1]] = value
    return found


def field_problems(fields: Iterable[Field]) -> Iterator[str]:
    """Yield how fields contradict each other: one is at the place of another, or within it."""
    places: dict[tuple[str, ...], str] = {}
    for field in fields:
        if field.kind == "place":
            continue
        for steps, other in places.items():
            shared = min(len(steps), len(field.steps))
            if steps[:shared] == field.steps[:shared]:
                yield (
                    f"expected each field to have a place of its own in the record, found {field.name} at"
                    f" {field.place} and {other} at {'.'.join(steps)}. Correct a path."
                )
        places[field.steps] = field.name
