"""Parses records whose fields are nested, whose time is a number, or that have no id (`record_fields`).

The way to each field is resolved once, when the parser is made: a struct for each object of the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import partial
from operator import attrgetter
from typing import Any, Final

import msgspec

from stateward.runtime.api.record_fields import EVENT_TIME, Bounds, Field, Reason
from stateward.runtime.ingest.field_values import RejectedError, decoded_type, json_name
from stateward.runtime.ingest.parse import TOO_DEEP, Parser, Verdict, no_blank

# The year 9999, as in ISO 8601.
_LAST_MS: Final = 253_402_300_799_999
_PER_UNIT: Final = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000)}
_NAMES: Final = {"s": "seconds", "ms": "milliseconds", "us": "microseconds"}


def parser_of(fields: tuple[Field, ...], bounds: Bounds) -> Parser:
    """The parser of a stream's records; that of plain ones has nothing to look up.

    Raises:
        ValueError: ``event_time`` is not among the fields, or two of them have one place.
    """
    shaped = any(len(field.steps) > 1 or field.unit != "iso" or field.kind == "place" for field in fields)
    return ShapedParser(fields, bounds) if shaped else Parser(fields, bounds)


class ShapedParser(Parser):
    """Parses the records of one stream that are not plain; its results are those of `Parser`."""

    def __init__(self, fields: tuple[Field, ...], bounds: Bounds) -> None:
        super().__init__(fields, bounds)
        self.names_places = any(field.kind == "place" for field in fields)
        found = [field for field in fields if field.kind != "place"]
        wire, ways = _wire_type(found)
        self._decode_wire = msgspec.json.Decoder(wire).decode
        self._names = tuple(field.name for field in found) + (("event_id",) if self.names_places else ())
        # One name more than there are fields at least, so that a tuple is returned.
        self._found = attrgetter(*(ways[field.name] for field in found), ways[EVENT_TIME.name])
        self._fill = ("",) if self.names_places else ()
        (time,) = (field for field in fields if field.name == EVENT_TIME.name)
        self._time_ms = (
            self._instants.milliseconds if time.unit == "iso" else partial(_milliseconds, time.unit)
        )

    def parse_all(self, values: Iterable[bytes | None], now_ms: int | None) -> Iterator[Verdict]:
        """See `Parser.parse_all`; without an id ``event_id`` is empty, and the caller names the place."""
        for value in values:
            yield self._verdict(value, now_ms)

    def _verdict(self, value: bytes | None, now_ms: int | None) -> Verdict:
        try:
            if value is not None and len(value) <= self._max_bytes:
                str(value, "utf-8")
                *found, text = self._found(self._decode_wire(value))
                event_ms = self._time_ms(text)
                record = self.record_type(**dict(zip(self._names, (*found, *self._fill), strict=True)))
                if (
                    self._not_before_ms <= event_ms
                    and (now_ms is None or event_ms <= now_ms + self._max_ahead_ms)
                    and no_blank(self._texts(record))
                ):
                    return record, event_ms, None
        except (ValueError, msgspec.DecodeError, AttributeError):  # an attribute of an object that is null
            pass
        except RecursionError:
            return None, 0, TOO_DEEP
        return self._explained(value, now_ms)

    def _raw(self, found: dict[str, str], field: Field) -> str | None:
        """The JSON text of a field; None if it, or an object on the way to it, is absent or null."""
        steps = field.steps
        for number, step in enumerate(steps):
            raw = found.get(step)
            if number == len(steps) - 1 or raw is None or raw == "null":
                return raw
            if not raw.startswith("{"):
                raise RejectedError(
                    Reason.WRONG_TYPE,
                    f"{'.'.join(steps[: number + 1])}: expected an object, found {json_name(raw)}",
                )
            found = self._members(raw)
        return None


def _milliseconds(unit: str, value: float) -> int:
    """A time as milliseconds since 1970 UTC, rounded down.

    Raises:
        ValueError: It is not in the years 1970 to 9999.
    """
    times, per = _PER_UNIT[unit]
    if 0 <= value <= _LAST_MS * 1000:
        # By the decimals of the record: a product of floats may be just below the millisecond.
        exact = value if isinstance(value, int) else Decimal(repr(value))
        found = int(exact * times // per)
    else:
        found = -1
    if not 0 <= found <= _LAST_MS:
        raise ValueError(f"expected {_NAMES[unit]} since 1970, found {value}: not in the years 1970 to 9999")
    return found


def _wire_type(fields: list[Field]) -> tuple[type[Any], dict[str, str]]:
    """A struct for the records, and by field the attributes on the way to it."""
    tree: dict[str, Any] = {}
    for field in fields:
        inner = tree
        for step in field.steps[:-1]:
            inner = inner.setdefault(step, {})
        inner[field.steps[-1]] = field
    ways: dict[str, str] = {}
    return _struct(tree, "", ways), ways


def _struct(tree: dict[str, Any], way: str, ways: dict[str, str]) -> type[Any]:
    members: list[Any] = []
    for number, (name, one) in enumerate(tree.items()):
        attribute = f"m{number}"
        if isinstance(one, Field):
            ways[one.name] = f"{way}{attribute}"
            kind = decoded_type(one)
            default = msgspec.field(name=name) if one.required else msgspec.field(default=None, name=name)
            members.append((attribute, kind if one.required else kind | None, default))
            continue
        inner = _struct(one, f"{way}{attribute}.", ways)
        if _is_required(one):
            members.append((attribute, inner, msgspec.field(name=name)))
        else:
            # Absent, it is as if all of its members were; null, `explain` looks at it.
            members.append((attribute, inner, msgspec.field(default_factory=inner, name=name)))
    return msgspec.defstruct("Wire", members, kw_only=True, gc=False)


def _is_required(tree: dict[str, Any]) -> bool:
    return any(one.required if isinstance(one, Field) else _is_required(one) for one in tree.values())
