"""Records, states and rows of any stream, made from what it declares; and what holds of every declaration."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from deltalake import DeltaTable, write_deltalake
from hypothesis import strategies as st

from stateward.control.launchers.launch import resolved_configuration
from stateward.project.project import Project
from stateward.project.settings import Settings
from stateward.project.spec import load_spec
from stateward.runtime.api.config import Config, parse_config
from stateward.runtime.api.key_logic import KeyState
from stateward.runtime.api.record_fields import EVENT_TIME, Bounds, Field, Reason, document, time_in
from stateward.runtime.ingest.parse import Parsed, Rejection
from stateward.runtime.ingest.shaped_records import parser_of
from stateward.runtime.keyed.codec import KeyStateCodec
from stateward.runtime.sink.output_rows import decode_rows, encode_rows, fitted
from stateward.runtime.watermark.admission import Seen

E = TypeVar("E")

TODAY_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
BOUNDS = Bounds(not_before_ms=0, max_ahead_ms=86_400_000, max_record_bytes=10_000)
ABSENT = object()
_FIELDS: dict[str, Any] = {"text": "x", "flag": True, "number": 1.5, "object": {}, "list": [], "place": ""}
_WRONG: dict[str, Any] = {"text": 1, "flag": "yes", "number": "1", "object": [], "list": {}}
_VALUES: dict[Any, Any] = {
    str: "ü",
    float: 1.5,
    bool: True,
    bytes: b"\xff",
    Decimal: Decimal("1.500000000"),
    datetime: datetime(2026, 1, 1, tzinfo=UTC),
}


def config_of(stream: str) -> Config:
    """The configuration of the shipped YAML."""
    return parse_config(resolved_configuration(load_spec(stream), Settings(), "r1"), "test")


class Records:
    """Records of one stream.

    Attributes:
        job: Its declaration.
        config: Its configuration.
        defaults: What a record says unless it is changed.
    """

    def __init__(self, stream: str, job: Any = None, config: Any = None, **defaults: Any) -> None:
        self.job = job or Project.imported().declaration(stream)
        self.config = config or config_of(stream)
        self.fields = self.job.fields(self.config)
        self.defaults = {field.name: _default(field) for field in self.fields} | defaults
        self.parser = parser_of(self.fields, BOUNDS)
        (self.time,) = (field for field in self.fields if field.name == EVENT_TIME.name)

    def parsed(self, number: int = 0, **changes: Any) -> Parsed | Rejection:
        """What becomes of a record; its id and the second of its time are the number."""
        at = time_in(self.time.unit, TODAY_MS + number * 1000 + 250)
        values = {**self.defaults, "event_id": f"e{number}", EVENT_TIME.name: at, **changes}
        value = {name: one for name, one in values.items() if one is not ABSENT}
        return self.parser.parse(json.dumps(document(self.fields, value)).encode(), TODAY_MS)

    def rejects(self, value: bytes) -> bool:
        """Whether a record's value is a dead letter."""
        return isinstance(self.parser.parse(value, TODAY_MS), Rejection)

    def event(self, number: int = 0, **changes: Any) -> Any:
        """The event that a record is."""
        verdict = self.parsed(number, **changes)
        assert isinstance(verdict, Parsed), verdict
        event = self.job.event(verdict.record, verdict.event_ms)
        return self.job.event_type(*event) if hasattr(self.job, "event_type") else event

    def reason(self, **changes: Any) -> str | None:
        """Why a record is a dead letter; None if it is an event."""
        verdict = self.parsed(**changes)
        return verdict.reason if isinstance(verdict, Rejection) else None


def _default(field: Field) -> Any:
    if field.kind == "time":
        return time_in(field.unit, TODAY_MS + 250)
    return field.one_of[0] if field.one_of else _FIELDS[field.kind]


def sample(kind: Any, *, full: bool = True, number: int = 1000) -> Any:
    """A value of a type.

    Args:
        kind: The type; of a named tuple every field is filled.
        full: Whether there is a value where None is allowed.
        number: The value of an int.
    """
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) is UnionType:
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
        if not full:
            return None
    if get_origin(kind) in (tuple, list):
        return get_origin(kind)((sample(get_args(kind)[0], full=full, number=number),))
    if hasattr(kind, "_fields"):
        hints = get_type_hints(kind, include_extras=True).values()
        return kind(*(sample(hint, full=full, number=number) for hint in hints))
    return number if kind is int else _VALUES[kind]


def check_fields(records: Records) -> None:
    """A whole record is an event; one that lacks a field, or has another type, is a dead letter."""
    names = [field.name for field in records.fields]
    assert len(set(names)) == len(names)
    assert {"event_id", "event_time", records.job.key.name} <= set(names)
    event = records.event(3)
    has_id = all(field.kind != "place" for field in records.fields)
    assert (event[0], event[1]) == ("e3" if has_id else "", 1_767_225_603_250)
    for field in records.fields:
        if field.kind != "place":
            _check_field(records, field)
    if records.time.unit == "iso":
        assert records.reason(event_time="2026-01-01T00:00:00") == Reason.EVENT_TIME_UNPARSABLE


def _check_field(records: Records, field: Field) -> None:
    missing = Reason.MISSING_FIELD if field.required else None
    assert records.reason(**{field.name: ABSENT}) == missing, field
    assert records.reason(**{field.name: None}) == missing, field
    is_text = field.kind == "time" and field.unit == "iso"
    wrong = Reason.EVENT_TIME_UNPARSABLE if is_text else Reason.WRONG_TYPE
    assert records.reason(**{field.name: _WRONG.get(field.kind, "today")}) == wrong, field
    if field.kind == "text":
        assert records.reason(**{field.name: " "}) == Reason.EMPTY_FIELD, field
    if field.one_of:
        unknown = "".join(field.one_of)[:1000] + "?"
        assert records.reason(**{field.name: unknown}) == Reason.UNKNOWN_VALUE, field


def check_state(job: Any) -> None:
    """What is kept for a key is the same after it was written and read, down to the types within."""
    codec: KeyStateCodec[Any, Any] = KeyStateCodec(job.state_type, job.event_type)
    for full in (True, False):
        state, event = (sample(kind, full=full, number=2**62) for kind in (job.state_type, job.event_type))
        kept = KeyState(state, (event,), (Seen("a", 1),), 5)
        # Named tuples equal plain ones; their texts do not.
        assert repr(codec.decode(codec.encode(kept))) == repr(kept)
        assert repr(codec.unpack(codec.pack(kept))) == repr(kept)


def check_tables(job: Any, folder: Path) -> None:
    """The rows fit the tables, from the logic to Delta."""
    for output in job.outputs:
        columns = [column.name for column in output.table.columns]
        assert all(column.comment for column in output.table.columns)
        rows = [sample(output.row, full=full) for full in (True, False)]
        packed = encode_rows(output.table, rows)
        arrow = decode_rows(packed)
        assert arrow.column_names == columns and len(columns) == len(output.row._fields)
        # What Spark hands over is in Arrow already, its columns perhaps in another order.
        assert fitted(output.table, arrow.select(columns[::-1])).equals(arrow)
        uri = f"file://{folder}/{output.table.name}"
        output.table.create(uri)
        write_deltalake(uri, arrow, mode="append")
        found = DeltaTable(uri)
        assert found.schema() == output.table.schema()
        assert found.to_pyarrow_table().num_rows == len(rows)


def timelines(
    event: Callable[[str, int, str], E], marks: str, until: int, most: int
) -> st.SearchStrategy[list[E]]:
    """Events of one key in any order, some with the same id.

    Args:
        event: Makes an event from its mark, its time and its id.
        marks: The kinds of events; a repeated mark is drawn more often.
        until: The latest time.
        most: The maximum number of events.
    """

    def drawn(choices: list[tuple[int, str]]) -> list[E]:
        return [event(mark, at, f"{number * 7 % 41}") for number, (at, mark) in enumerate(choices)]

    # Drawn as one list of small choices, because each draw costs more than a whole timeline.
    return st.lists(st.tuples(st.integers(0, until), st.sampled_from(marks)), max_size=most).map(drawn)
