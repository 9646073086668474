"""From raw Kafka records to typed events or a reason why not, in Spark SQL.

Strict where Spark's readers are lenient: a field has the declared JSON type or the record is a dead letter;
nothing is converted, nothing becomes NULL in silence. Times need an explicit zone. Both limits of an event's
time are judged by the record's own timestamp and the configuration, never by the wall clock, so that a
re-run judges alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MAX_TEXT_LENGTH = 1024
TICK_KEY = "\x00stateward-tick"

# Spark's JSON parser stops after the first value and ignores what follows. Parsed as the first of two array
# elements, a record with anything behind its value loses the second element, or never gets to it.
_SENTINEL = "stateward:end-of-record"
_TIME_PATTERN = r"^\\d{4}-\\d{2}-\\d{2}[T ]\\d{2}:\\d{2}:\\d{2}(\\.\\d{1,9})?(Z|[+-]\\d{2}:?\\d{2})$"


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
    """

    name: str
    kind: str
    required: bool = True
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True)
class Bounds:
    """Limits of a record and of its time; milliseconds and bytes."""

    not_before_ms: int
    max_ahead_ms: int
    max_record_bytes: int


EVENT_TIME = Field("event_time", "time")
_SPARK_TYPES = {"text": "string", "flag": "boolean", "number": "decimal(38,9)", "time": "string"}
_JSON_TYPES = {
    "text": "STRING",
    "flag": "BOOLEAN",
    "number": "BIGINT|DECIMAL.*|DOUBLE|FLOAT",
    "time": "STRING",
}


def parse_expression(bounds: Bounds) -> str:
    """SQL for the record's value as a variant, or NULL; ``value`` is the raw column."""
    text = "cast(value AS string)"
    return (
        f"CASE WHEN octet_length(value) <= {bounds.max_record_bytes} AND is_valid_utf8({text}) "
        f"THEN try_parse_json(concat('[', {text}, ',\"{_SENTINEL}\"]')) END"
    )


def type_expression(field: Field) -> str:
    """SQL for the JSON type of a field of ``body``: NULL when absent, ``VOID`` when null."""
    return f"schema_of_variant(try_variant_get(body, '$.{field.name}', 'variant'))"


def value_expression(field: Field) -> str:
    """SQL for the value of a field of ``body``; its type is judged elsewhere."""
    return f"try_variant_get(body, '$.{field.name}', '{_SPARK_TYPES[field.kind]}')"


def time_expression(text: str) -> str:
    """SQL for the instant that the text column names, or NULL: ISO 8601 with seconds and a zone."""
    return f"CASE WHEN {text} RLIKE '{_TIME_PATTERN}' THEN try_to_timestamp({text}) END"


def verdict_expression(fields: tuple[Field, ...], bounds: Bounds) -> str:
    """SQL for ``struct<reason, detail>`` or NULL for a valid record.

    Columns it reads: ``value, parsed, body, record_timestamp, event_ts``, and per field ``v_<name>,
        t_<name>``.
    """
    checks = [
        ("value IS NULL", Reason.EMPTY_RECORD, "'the record has no value'"),
        (
            f"octet_length(value) > {bounds.max_record_bytes}",
            Reason.RECORD_TOO_LARGE,
            f"concat(octet_length(value), ' bytes, allowed are {bounds.max_record_bytes}')",
        ),
        ("NOT is_valid_utf8(cast(value AS string))", Reason.NOT_UTF8, "'the value is not UTF-8'"),
        (
            f"parsed IS NULL OR NOT try_variant_get(parsed, '$[1]', 'string') <=> '{_SENTINEL}'",
            Reason.MALFORMED_JSON,
            "'the value is not one JSON document'",
        ),
        (
            "NOT schema_of_variant(body) LIKE 'OBJECT<%'",
            Reason.NOT_AN_OBJECT,
            "concat('expected a JSON object, found ', split_part(schema_of_variant(body), '<', 1))",
        ),
    ]
    for field in fields:
        checks += _field_checks(field)
    checks += _time_checks(bounds)
    cases = " ".join(
        f"WHEN {condition} THEN named_struct('reason', '{reason}', 'detail', {detail})"
        for condition, reason, detail in checks
    )
    return f"CASE {cases} END"


def _field_checks(field: Field) -> list[tuple[str, Reason, str]]:
    name, found, value = field.name, f"t_{field.name}", f"v_{field.name}"
    absent = f"({found} IS NULL OR {found} = 'VOID')"
    checks = []
    if field.required:
        checks.append((absent, Reason.MISSING_FIELD, f"'{name} is missing or null'"))
    wrong = f"NOT {absent} AND NOT {found} RLIKE '^({_JSON_TYPES[field.kind]})$'"
    detail = f"concat('{name}: expected {field.kind}, found ', split_part({found}, '<', 1))"
    checks.append((wrong, Reason.WRONG_TYPE, detail))
    if field.kind == "text":
        checks.append((f"trim({value}) = ''", Reason.EMPTY_FIELD, f"'{name} is empty'"))
        too_long = f"'{name}: longer than {MAX_TEXT_LENGTH} characters'"
        checks.append((f"char_length({value}) > {MAX_TEXT_LENGTH}", Reason.VALUE_OUT_OF_RANGE, too_long))
    if field.kind == "number":
        limits = [f"{value} IS NULL"]
        limits += [] if field.minimum is None else [f"{value} < {field.minimum}"]
        limits += [] if field.maximum is None else [f"{value} > {field.maximum}"]
        detail = f"'{name}: must be at least {field.minimum} and at most {field.maximum}'"
        checks.append((f"NOT {absent} AND ({' OR '.join(limits)})", Reason.VALUE_OUT_OF_RANGE, detail))
    return checks


def _time_checks(bounds: Bounds) -> list[tuple[str, Reason, str]]:
    return [
        (
            "event_ts IS NULL",
            Reason.EVENT_TIME_UNPARSABLE,
            "concat('expected ISO 8601 with a zone, found ', left(v_event_time, 64))",
        ),
        (
            f"unix_millis(event_ts) < {bounds.not_before_ms}",
            Reason.EVENT_TIME_TOO_OLD,
            "concat('event_time ', left(v_event_time, 64), ' is before the stream''s not_before')",
        ),
        (
            f"unix_millis(event_ts) > unix_millis(record_timestamp) + {bounds.max_ahead_ms}",
            Reason.EVENT_TIME_IN_FUTURE,
            f"concat('event_time ', left(v_event_time, 64), ' is more than {bounds.max_ahead_ms} ms after ', "
            "cast(record_timestamp AS string))",
        ),
    ]
