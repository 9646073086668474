"""Parses the bytes of a record into a typed event, or rejects the record with a reason.

Strict: each field has its declared JSON type, or the record is a dead letter. No value is converted, and none
becomes None silently. The limits of the event time depend on the configuration and on the time in the batch's
plan, so that a re-run gives the same result. Pure.

Almost every record is valid, so one typed decoding comes first. A record that fails it is checked again step
by step, and the result of these checks counts.

The JSON decoder decides two cases: if a key occurs twice, the last value counts; a document nested deeper
than the interpreter's stack allows, about 900 levels, is malformed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from stateward.runtime.api.record_fields import (
    EVENT_TIME,
    MAX_TEXT_LENGTH,
    Bounds,
    Field,
    Reason,
    field_problems,
)
from stateward.runtime.ingest.field_values import SHOWN, RejectedError, decoded_type, field_value, json_name
from stateward.runtime.ingest.iso_times import MINUTE_LENGTH, Instants

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Whether no text is blank: hashing a text is faster than stripping it.
no_blank = frozenset(" " * length for length in range(1, MAX_TEXT_LENGTH + 1)).isdisjoint
_TIME = EVENT_TIME.name, "time", True


class Parsed(NamedTuple):
    """A valid record.

    Attributes:
        record: One attribute per declared field: str, bool, int or float, list or dict; None for an absent
            optional field. ``event_time`` is the original text or number.
        event_ms: Event time, milliseconds since 1970 UTC, rounded down.
    """

    record: Any
    event_ms: int


class Rejection(NamedTuple):
    """Why a record is invalid, and what was found."""

    reason: Reason
    detail: str


Verdict = tuple[Any, int, Rejection | None]
"""Record and event time as in `Parsed`, and None; or None, 0 and why the record is invalid."""


class Parser:
    """Parses the records of one stream. Not thread-safe.

    Args:
        fields: The stream's fields, including ``event_time``.
        bounds: Limits of a record and of its time.

    Attributes:
        names_places: Whether the caller sets ``event_id`` to the place of the record (`place_id`).

    Raises:
        ValueError: ``event_time`` is not among the fields, or two of them have one place.
    """

    names_places = False

    def __init__(self, fields: tuple[Field, ...], bounds: Bounds) -> None:
        if not any((field.name, field.kind, field.required) == _TIME for field in fields):
            names = ", ".join(field.name for field in fields) or "none"
            raise ValueError(
                f"expected the field {EVENT_TIME.name}, a required time, among those of the stream,"
                f" found {names}"
            )
        for problem in field_problems(fields):
            raise ValueError(problem)
        self.record_type = _record_type(fields)
        self._fields = fields
        self._max_bytes = bounds.max_record_bytes
        self._not_before_ms = bounds.not_before_ms
        self._max_ahead_ms = bounds.max_ahead_ms
        self._instants = Instants()
        self._time_ms: Callable[[Any], int] = self._instants.milliseconds
        self._decode = msgspec.json.Decoder(self.record_type).decode
        self._decode_any = msgspec.json.Decoder(msgspec.Raw).decode
        self._decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
        texts = [field.name for field in fields if field.kind == "text"]
        # attrgetter returns no tuple for a single name. The event time is never blank, so it can fill up.
        self._texts = attrgetter(*texts, *[EVENT_TIME.name] * (2 - len(texts)))

    def parse(self, value: bytes | None, now_ms: int | None) -> Parsed | Rejection:
        """Parse one record; see `parse_all`."""
        record, event_ms, rejection = next(self.parse_all((value,), now_ms))
        return rejection or Parsed(record, event_ms)

    def parse_all(self, values: Iterable[bytes | None], now_ms: int | None) -> Iterator[Verdict]:
        """Parse records one after another, in one loop because a call per record is dear.

        Args:
            values: The records' values.
            now_ms: The broker's time when the batch was planned, milliseconds since 1970 UTC. None skips the
                check for event times in the future, for records that were checked before.
        """
        decode, texts, most_bytes = self._decode, self._texts, self._max_bytes
        minutes, rests = self._instants.minutes, self._instants.rests
        first_ms, last_ms = self._not_before_ms, math.inf if now_ms is None else now_ms + self._max_ahead_ms
        for value in values:
            try:
                if value is not None and len(value) <= most_bytes:
                    # The decoder does not check the encoding of skipped values.
                    if not value.isascii():
                        str(value, "utf-8")
                    record = decode(value)
                    text = record.event_time
                    # `Instants.milliseconds`, inlined
                    event_ms = minutes[text[:MINUTE_LENGTH]] + rests[text[MINUTE_LENGTH:]]
                    if first_ms <= event_ms <= last_ms and no_blank(texts(record)):
                        yield record, event_ms, None
                        continue
            # Encoding, JSON or time; `explain` finds the reason. In msgspec 0.19 its error is no ValueError.
            except (ValueError, msgspec.DecodeError):
                pass
            except RecursionError:
                yield None, 0, TOO_DEEP
                continue
            yield self._explained(value, now_ms)

    def _explained(self, value: bytes | None, now_ms: int | None) -> Verdict:
        found = self.explain(value, now_ms)
        return (None, 0, found) if isinstance(found, Rejection) else (*found, None)

    def explain(self, value: bytes | None, now_ms: int | None) -> Parsed | Rejection:
        """Parse one record check by check: the same result as `parse`, without its shortcut."""
        try:
            found = self._split(value)
            values = {
                field.name: field_value(field, self._raw(found, field))
                for field in self._fields
                if field.kind != "place"
            }
            return Parsed(self.record_type(**values), self._event_ms(values[EVENT_TIME.name], now_ms))
        except RejectedError as rejected:
            return Rejection(rejected.reason, rejected.detail)
        except RecursionError:
            return TOO_DEEP

    def _raw(self, found: dict[str, str], field: Field) -> str | None:
        """The JSON text of a field; None if it is absent."""
        return found.get(field.place)

    def _members(self, text: str) -> dict[str, str]:
        return {name: bytes(raw).decode().strip() for name, raw in self._decode_members(text).items()}

    def _split(self, value: bytes | None) -> dict[str, str]:
        """The members of the record's object, each as JSON text."""
        if value is None:
            raise RejectedError(Reason.EMPTY_RECORD, "the record has no value")
        if len(value) > self._max_bytes:
            raise RejectedError(Reason.RECORD_TOO_LARGE, f"{len(value)} bytes, allowed are {self._max_bytes}")
        try:
            text = str(value, "utf-8")
        except UnicodeDecodeError as error:
            raise RejectedError(Reason.NOT_UTF8, f"the value is not UTF-8 at byte {error.start}") from None
        try:
            document = bytes(self._decode_any(text)).decode().strip()
            if not document.startswith("{"):
                raise RejectedError(
                    Reason.NOT_AN_OBJECT, f"expected a JSON object, found {json_name(document)}"
                )
            return self._members(text)
        except msgspec.DecodeError as error:
            raise RejectedError(
                Reason.MALFORMED_JSON, f"the value is not one JSON document: {error}"
            ) from None

    def _event_ms(self, value: Any, now_ms: int | None) -> int:
        shown = str(value)[:SHOWN]
        try:
            event_ms = self._time_ms(value)
        except ValueError as error:
            wanted = f"expected ISO 8601 with a zone, found {shown}" if isinstance(value, str) else str(error)
            raise RejectedError(Reason.EVENT_TIME_UNPARSABLE, wanted) from None
        if event_ms < self._not_before_ms:
            raise RejectedError(
                Reason.EVENT_TIME_TOO_OLD,
                f"event_time {shown} is {_instant(event_ms)}, before source.not_before,"
                f" {_instant(self._not_before_ms)}",
            )
        if now_ms is not None and event_ms > now_ms + self._max_ahead_ms:
            read = _instant(now_ms)
            raise RejectedError(
                Reason.EVENT_TIME_IN_FUTURE,
                f"event_time {shown} is more than {self._max_ahead_ms} ms after {read}, when it was read",
            )
        return event_ms


TOO_DEEP = Rejection(Reason.MALFORMED_JSON, "the value is nested too deeply")


def _instant(at_ms: int) -> str:
    try:
        return (_EPOCH + timedelta(milliseconds=at_ms)).isoformat()
    except OverflowError:
        return f"{at_ms} ms since 1970"


def place_id(topic: str, partition: int, offset: int) -> str:
    """The id of an event that has none."""
    return f"{topic}/{partition}/{offset}"


def _record_type(fields: tuple[Field, ...]) -> type[Any]:
    """A struct that decodes valid records only, except for times and blank texts."""
    members: list[Any] = []
    for field in fields:
        kind = decoded_type(field)
        if field.kind == "place":
            members.append((field.name, str, ""))
        elif field.required:
            members.append((field.name, kind, msgspec.field(name=field.place)))
        else:
            members.append((field.name, kind | None, msgspec.field(default=None, name=field.place)))
    return msgspec.defstruct("Record", members, kw_only=True, gc=False)
