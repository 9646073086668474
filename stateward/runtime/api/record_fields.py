"""What a stream declares of its records, and why a record can be a dead letter; `parse` judges by it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

MAX_TEXT_LENGTH = 1024
TICK_KEY = "\x00stateward-tick"


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
    EVENT_TIME_UNPARSABLE = "event_time_unparsable"
    EVENT_TIME_TOO_OLD = "event_time_too_old"
    EVENT_TIME_IN_FUTURE = "event_time_in_future"


@dataclass(frozen=True)
class Field:
    """One field of a stream's input.

    Attributes:
        name: Name on the wire.
        kind: ``text``, ``flag``, ``number`` or ``time``.
        required: Whether it may be absent or null.
        minimum: For numbers: the smallest value allowed.
        maximum: For numbers: the largest value allowed.
        examples: Values in made-up records (`stateward try`), one at random; None leaves the field out.
    """

    name: str
    kind: str
    required: bool = True
    minimum: float | None = None
    maximum: float | None = None
    examples: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Bounds:
    """Limits of a record and of its time; milliseconds and bytes."""

    not_before_ms: int
    max_ahead_ms: int
    max_record_bytes: int


EVENT_TIME = Field("event_time", "time")
