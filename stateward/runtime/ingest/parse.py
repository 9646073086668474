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
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

import msgspec

from stateward.runtime.api.record_fields import EVENT_TIME, MAX_TEXT_LENGTH, Bounds, Field, Reason
from stateward.runtime.ingest.iso_times import MINUTE_LENGTH, Instants

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN = 64
# Numbers have at most 29 digits before the point, as in DECIMAL(38, 9).
_TOO_LARGE = 1e29
_MAX_DIGITS = 30
# msgspec supports limits of 64 bits; larger numbers are checked by hand.
_PLAIN_NUMBER = 10**15
# Whether no text is blank: hashing a text is faster than stripping it.
_NO_BLANK = frozenset(" " * length for length in range(1, MAX_TEXT_LENGTH + 1)).isdisjoint
_JSON_NAMES = {
    '"': "a text",
    "{": "an object",
    "[": "an array",
    "t": "a flag",
    "f": "a flag",
    "n": "null",
}
_KINDS = {"text": "a text", "flag": "a flag", "number": "a number", "time": "a text"}


class Parsed(NamedTuple):
    """A valid record.

    Attributes:
        record: One attribute per declared field: str, bool, int or float; None for an absent optional field.
            ``event_time`` is the original text.
        event_ms: Event time, milliseconds since 1970 UTC, rounded down.
    """

    record: Any
    event_ms: int


class Rejection(NamedTuple):
    """Why a record is invalid, and what was found."""

    reason: Reason
    detail: str


class _RejectedError(Exception):
    """Raised by the first check that fails."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason, detail)
        self.rejection = Rejection(reason, detail)


class Parser:
    """Parses the records of one stream. Not thread-safe.

    Args:
        fields: The stream's fields, including ``event_time``.
        bounds: Limits of a record and of its time.

    Raises:
        ValueError: ``event_time`` is not among the fields.
    """

    def __init__(self, fields: tuple[Field, ...], bounds: Bounds) -> None:
        if EVENT_TIME not in fields:
            names = ", ".join(field.name for field in fields) or "none"
            raise ValueError(f"expected the field {EVENT_TIME.name} among those of the stream, found {names}")
        self.record_type = _record_type(fields)
        self._fields = fields
        self._max_bytes = bounds.max_record_bytes
        self._not_before_ms = bounds.not_before_ms
        self._max_ahead_ms = bounds.max_ahead_ms
        self._instants = Instants()
        self._minutes, self._rests = self._instants.minutes, self._instants.rests
        self._decode = msgspec.json.Decoder(self.record_type).decode
        self._decode_any = msgspec.json.Decoder(msgspec.Raw).decode
        self._decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
        texts = [field.name for field in fields if field.kind == "text"]
        # attrgetter returns no tuple for a single name. The event time is never blank, so it can fill up.
        self._texts = attrgetter(*texts, *[EVENT_TIME.name] * (2 - len(texts)))

    def parse(self, value: memoryview | bytes | None, now_ms: int | None) -> Parsed | Rejection:
        """Parse one record.

        Args:
            value: The record's value.
            now_ms: The broker's time when the batch was planned, milliseconds since 1970 UTC. None skips the
                check for event times in the future, for a record that was checked before.
        """
        try:
            if value is not None and len(value) <= self._max_bytes:
                str(value, "utf-8")  # the decoder does not check the encoding of skipped values
                record = self._decode(value)
                text = record.event_time
                # `Instants.milliseconds`, inlined
                event_ms: int = self._minutes[text[:MINUTE_LENGTH]] + self._rests[text[MINUTE_LENGTH:]]
                if (
                    self._not_before_ms <= event_ms
                    and (now_ms is None or event_ms <= now_ms + self._max_ahead_ms)
                    and _NO_BLANK(self._texts(record))
                ):
                    return Parsed(record, event_ms)
        except ValueError:  # encoding, JSON or time; `explain` finds the reason
            pass
        except RecursionError:
            return _TOO_DEEP
        return self.explain(value, now_ms)

    def explain(self, value: memoryview | bytes | None, now_ms: int | None) -> Parsed | Rejection:
        """Parse one record check by check: the same result as `parse`, without its shortcut."""
        try:
            found = self._split(value)
            values = {field.name: _field_value(field, found.get(field.name)) for field in self._fields}
            return Parsed(self.record_type(**values), self._event_ms(values[EVENT_TIME.name], now_ms))
        except _RejectedError as rejected:
            return rejected.rejection

    def _split(self, value: memoryview | bytes | None) -> dict[str, str]:
        """The members of the record's object, each as JSON text."""
        if value is None:
            raise _RejectedError(Reason.EMPTY_RECORD, "the record has no value")
        if len(value) > self._max_bytes:
            raise _RejectedError(
                Reason.RECORD_TOO_LARGE, f"{len(value)} bytes, allowed are {self._max_bytes}"
            )
        try:
            text = str(value, "utf-8")
        except UnicodeDecodeError as error:
            raise _RejectedError(Reason.NOT_UTF8, f"the value is not UTF-8 at byte {error.start}") from None
        try:
            document = bytes(self._decode_any(text)).decode().strip()
            if not document.startswith("{"):
                raise _RejectedError(
                    Reason.NOT_AN_OBJECT, f"expected a JSON object, found {_json_name(document)}"
                )
            return {name: bytes(raw).decode().strip() for name, raw in self._decode_members(text).items()}
        except msgspec.DecodeError as error:
            raise _RejectedError(
                Reason.MALFORMED_JSON, f"the value is not one JSON document: {error}"
            ) from None
        except RecursionError:
            raise _RejectedError(*_TOO_DEEP) from None

    def _event_ms(self, text: str, now_ms: int | None) -> int:
        shown = text[:_SHOWN]
        try:
            event_ms = self._instants.milliseconds(text)
        except ValueError:
            raise _RejectedError(
                Reason.EVENT_TIME_UNPARSABLE, f"expected ISO 8601 with a zone, found {shown}"
            ) from None
        if event_ms < self._not_before_ms:
            raise _RejectedError(
                Reason.EVENT_TIME_TOO_OLD, f"event_time {shown} is before the stream's not_before"
            )
        if now_ms is not None and event_ms > now_ms + self._max_ahead_ms:
            read = (_EPOCH + timedelta(milliseconds=now_ms)).isoformat()
            raise _RejectedError(
                Reason.EVENT_TIME_IN_FUTURE,
                f"event_time {shown} is more than {self._max_ahead_ms} ms after {read}, when it was read",
            )
        return event_ms


_TOO_DEEP = Rejection(Reason.MALFORMED_JSON, "the value is nested too deeply")


def _record_type(fields: tuple[Field, ...]) -> type[Any]:
    """A struct that decodes valid records only, except for times and blank texts."""
    members: list[Any] = []
    for field in fields:
        kind = _decoded_type(field)
        members.append((field.name, kind) if field.required else (field.name, kind | None, None))
    return msgspec.defstruct("Record", members, kw_only=True, gc=False)


def _decoded_type(field: Field) -> Any:
    if field.kind == "text":
        return Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT_LENGTH)]
    if field.kind == "number":
        low = max(-_PLAIN_NUMBER, -math.inf if field.minimum is None else field.minimum)
        high = min(_PLAIN_NUMBER, math.inf if field.maximum is None else field.maximum)
        whole = Annotated[int, msgspec.Meta(ge=math.ceil(low), le=math.floor(high))]
        return whole | Annotated[float, msgspec.Meta(ge=float(low), le=float(high))]
    return {"flag": bool, "time": str}[field.kind]


def _json_name(raw: str) -> str:
    return _JSON_NAMES.get(raw[0], "a number")


def _field_value(field: Field, raw: str | None) -> Any:
    if raw is None or raw == "null":
        if field.required:
            raise _RejectedError(Reason.MISSING_FIELD, f"{field.name} is missing or null")
        return None
    if _json_name(raw) != _KINDS[field.kind]:
        raise _RejectedError(
            Reason.WRONG_TYPE, f"{field.name}: expected a {field.kind}, found {_json_name(raw)}"
        )
    if field.kind == "number":
        return _number(field, raw)
    value = msgspec.json.decode(raw)
    if field.kind == "text":
        _check_text(field, value)
    return value


def _check_text(field: Field, value: str) -> None:
    if not value.strip(" "):
        raise _RejectedError(Reason.EMPTY_FIELD, f"{field.name} is empty")
    if len(value) > MAX_TEXT_LENGTH:
        raise _RejectedError(
            Reason.VALUE_OUT_OF_RANGE, f"{field.name}: longer than {MAX_TEXT_LENGTH} characters"
        )


def _number(field: Field, raw: str) -> int | float:
    is_whole = raw.lstrip("-").isdigit()
    value: int | float = int(raw) if is_whole and len(raw) <= _MAX_DIGITS else float(raw)
    if (
        abs(value) >= _TOO_LARGE
        or (field.minimum is not None and value < field.minimum)
        or (field.maximum is not None and value > field.maximum)
    ):
        low = f"at least {field.minimum}" if field.minimum is not None else ""
        high = f"at most {field.maximum}" if field.maximum is not None else ""
        limits = " and ".join(filter(None, (low, high))) or "a number of at most 29 digits"
        raise _RejectedError(
            Reason.VALUE_OUT_OF_RANGE, f"{field.name}: must be {limits}, found {raw[:_SHOWN]}"
        )
    return value
