"""Judges the values of fields: the types to which valid ones are decoded, and the checks one by one. Pure."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec

from stateward.runtime.api.record_fields import MAX_TEXT_LENGTH, Field, Reason

SHOWN = 64
"""The most characters of a value in a detail."""

# Numbers have at most 29 digits before the point, as in DECIMAL(38, 9).
_TOO_LARGE = 1e29
_MAX_DIGITS = 30
# msgspec supports limits of 64 bits; larger numbers are checked by hand.
_PLAIN_NUMBER = 10**15
_JSON_NAMES = {
    '"': "a text",
    "{": "an object",
    "[": "an array",
    "t": "a flag",
    "f": "a flag",
    "n": "null",
}
_KINDS = {
    "text": "a text",
    "flag": "a flag",
    "number": "a number",
    "time": "a text",
    "list": "an array",
    "object": "an object",
}


class RejectedError(Exception):
    """Raised by the first check that fails, with the reason and what was found."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def decoded_type(field: Field) -> Any:
    """What valid values of a field are decoded to."""
    if field.one_of:
        return Literal[field.one_of]
    if field.kind == "list":
        return list[_item_type(field)]  # type: ignore[misc]
    if field.kind == "time":
        return str if field.unit == "iso" else int | float
    if field.kind == "text":
        return Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT_LENGTH)]
    if field.kind == "number":
        low = max(-_PLAIN_NUMBER, -math.inf if field.minimum is None else field.minimum)
        high = min(_PLAIN_NUMBER, math.inf if field.maximum is None else field.maximum)
        whole = Annotated[int, msgspec.Meta(ge=math.ceil(low), le=math.floor(high))]
        return whole | Annotated[float, msgspec.Meta(ge=float(low), le=float(high))]
    return {"flag": bool, "object": dict[str, Any], "place": str}[field.kind]


def _item_type(field: Field) -> Any:
    if field.items == "text":
        return Annotated[str, msgspec.Meta(max_length=MAX_TEXT_LENGTH)]
    return decoded_type(replace(field, kind=field.items, items="")) if field.items else Any


def json_name(raw: str) -> str:
    """The type of a JSON text, for a detail."""
    return _JSON_NAMES.get(raw[0], "a number")


def field_value(field: Field, raw: str | None) -> Any:
    """Check the value of a field.

    Args:
        field: The field.
        raw: Its JSON text; None if it is absent.

    Raises:
        RejectedError: It is not a value of the field.
    """
    if raw is None or raw == "null":
        if field.required:
            raise RejectedError(Reason.MISSING_FIELD, f"{field.place} is missing or null")
        return None
    kind = "number" if field.unit != "iso" else field.kind
    if json_name(raw) != _KINDS[kind]:
        raise RejectedError(
            Reason.WRONG_TYPE, f"{field.place}: expected {_wanted(field)}, found {json_name(raw)}"
        )
    if kind == "number":
        return _number(field, raw) if field.kind == "number" else _json_number(raw)
    if field.items:
        items = msgspec.json.decode(raw, type=list[msgspec.Raw])
        return [_item(field, number, bytes(item).decode().strip()) for number, item in enumerate(items)]
    try:
        value = msgspec.json.decode(raw)
    except msgspec.ValidationError as error:
        raise RejectedError(Reason.VALUE_OUT_OF_RANGE, f"{field.place}: {error}") from None
    if field.kind == "text":
        _check_text(field, value)
    return value


def _wanted(field: Field) -> str:
    if field.unit != "iso":
        return "a time as a number"
    return "an object" if field.kind == "object" else f"a {field.kind}"


def _item(field: Field, number: int, raw: str) -> Any:
    place = f"{field.place}[{number}]"
    if json_name(raw) != _KINDS[field.items]:
        raise RejectedError(Reason.WRONG_TYPE, f"{place}: expected a {field.items}, found {json_name(raw)}")
    if field.items == "number":
        return _number(field, raw)
    value = msgspec.json.decode(raw)
    if field.items == "text":
        _check_length(place, value)
    return value


def _check_text(field: Field, value: str) -> None:
    if not value.strip(" "):
        raise RejectedError(Reason.EMPTY_FIELD, f"{field.place} is empty")
    _check_length(field.place, value)
    if field.one_of and value not in field.one_of:
        known = ", ".join(field.one_of)[:SHOWN]
        raise RejectedError(
            Reason.UNKNOWN_VALUE, f"{field.place}: expected one of {known}, found {value[:SHOWN]}"
        )


def _check_length(place: str, value: str) -> None:
    if len(value) > MAX_TEXT_LENGTH:
        raise RejectedError(Reason.VALUE_OUT_OF_RANGE, f"{place}: longer than {MAX_TEXT_LENGTH} characters")


def _json_number(raw: str) -> int | float:
    is_whole = raw.lstrip("-").isdigit()
    return int(raw) if is_whole and len(raw) <= _MAX_DIGITS else float(raw)


def _number(field: Field, raw: str) -> int | float:
    value = _json_number(raw)
    if (
        abs(value) >= _TOO_LARGE
        or (field.minimum is not None and value < field.minimum)
        or (field.maximum is not None and value > field.maximum)
    ):
        low = f"at least {field.minimum}" if field.minimum is not None else ""
        high = f"at most {field.maximum}" if field.maximum is not None else ""
        limits = " and ".join(filter(None, (low, high))) or "a number of at most 29 digits"
        raise RejectedError(
            Reason.VALUE_OUT_OF_RANGE, f"{field.place}: must be {limits}, found {raw[:SHOWN]}"
        )
    return value
