"""Decodes Kafka records into one Spark row per event, the input of Spark's own operators.

A row is an event, a tick, or a result that needs no operator: dead letters, late events and counts, packed as
in `output_rows`. Names of columns that are not fields of the event begin with ``_``, so that they cannot
clash with a field; the columns of other kinds of rows are null.

Lateness is decided here, at the watermark of the batch, and a late event never reaches an operator: Spark
would drop it silently. Spark also drops a row *at* the watermark. For Stateward such an event is on time, so
the time of its row is one microsecond later.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from stateward.runtime.api.record_fields import EVENT_TIME, Bounds, Field
from stateward.runtime.api.row_table import NUMBER
from stateward.runtime.api.tables import DEAD_LETTERS, LATE_EVENTS
from stateward.runtime.checkpoint.checkpoint import PlannedBatch
from stateward.runtime.ingest.parse import Verdict
from stateward.runtime.ingest.record_batch import RecordTask, running_batch
from stateward.runtime.sink.output_rows import KIND_COUNTS, encode_pieces
from stateward.runtime.watermark.partition_times import NEVER
from stateward.runtime.watermark.topic_partitions import Topics

if TYPE_CHECKING:
    from confluent_kafka import Message

AFTER_MS_US: Final = 1
"""Microseconds of a row's time after the millisecond of its event."""

_TYPES: Final = {"text": "string", "place": "string", "flag": "boolean", "number": NUMBER, "time": "string"}
_ARROW: Final = {
    "text": pa.string(),
    "place": pa.string(),
    "flag": pa.bool_(),
    "number": pa.decimal128(38, 9),
    "time": pa.string(),
}
_INSTANT = pa.timestamp("us", tz="UTC")
_OWN: Final = (
    ("_tick_ts", "timestamp", _INSTANT),
    ("_kind", "string", pa.string()),
    ("_rows", "bigint", pa.int64()),
    ("_data", "binary", pa.binary()),
    (EVENT_TIME.name, "timestamp", _INSTANT),
)
_BILLIONTH = Decimal("1e-9")
_EXACT = Context(prec=76)
_ROWS_PER_BATCH = 10_000


@dataclass(frozen=True)
class EventRowDecoder:
    """Creates the decoding tasks of a stream on Spark's own operators.

    Attributes:
        key: Name of the key field.
        fields: All declared fields.
        bounds: Limits of a record and of its time.
        topics: The data topics.
        checkpoint_uri: The checkpoint, which contains the watermark of the batch.
    """

    key: str
    fields: tuple[Field, ...]
    bounds: Bounds
    topics: Topics
    checkpoint_uri: str

    @property
    def columns(self) -> tuple[Field, ...]:
        """The fields that are columns, except the event time."""
        return tuple(field for field in self.fields if field.name != EVENT_TIME.name)

    @property
    def ddl(self) -> str:
        """The columns of the runtime and one column per field."""
        own = [f"{name} {kind}" for name, kind, _ in _OWN]
        return ", ".join(own + [f"`{field.name}` {_spark_type(field)}" for field in self.columns])

    @property
    def schema(self) -> pa.Schema:
        """The same columns as an Arrow schema."""
        own = [(name, kind) for name, _, kind in _OWN]
        return pa.schema(own + [(field.name, _arrow_type(field)) for field in self.columns])

    def batch(self, events: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        """Events in the columns of `schema`.

        Args:
            events: One at least: its time (µs since 1970 UTC), then its columns.
        """
        times, *columns = zip(*events, strict=True)
        nothing = [pa.nulls(len(events), kind) for _, _, kind in _OWN[:-1]]
        arrays = [pa.array(times, pa.int64()).cast(_INSTANT)]
        for field, values in zip(self.columns, columns, strict=True):
            arrays.append(pa.array(_exact(field, values), _arrow_type(field)))
        return pa.RecordBatch.from_arrays([*nothing, *arrays], schema=self.schema)

    def load(self) -> EventRowTask:
        """Create the decoder of one task."""
        return EventRowTask(self, running_batch(self.checkpoint_uri))


class EventRowTask(RecordTask):
    """The rows that one task has decoded so far."""

    def __init__(self, decoder: EventRowDecoder, batch: PlannedBatch) -> None:
        super().__init__(decoder.topics, decoder.fields, decoder.bounds, batch.now_ms)
        self._decoder = decoder
        self._watermark_ms = batch.watermark_ms
        self._values: Callable[[Any], tuple[Any, ...]] = attrgetter(
            *(field.name for field in decoder.columns)
        )
        self._owner = attrgetter(decoder.key)
        self._events: list[tuple[Any, ...]] = []
        self._late: list[tuple[Any, ...]] = []

    def _take(self, judged: Iterable[tuple[Message, bytes | None, Verdict]]) -> None:
        for message, value, (record, event_ms, why) in judged:
            if why is not None:
                self._reject(message, why)
                continue
            slot = self._first_slot + (message.partition() or 0)
            if event_ms > self._newest.get(slot, NEVER):
                self._watch.event(slot, event_ms, message.timestamp()[1])
            if event_ms < self._watermark_ms:
                late = (*self._where(message), record.event_id, self._owner(record), event_ms)
                self._late.append((*late, self._watermark_ms, value))
            else:
                self._events.append((event_ms * 1000 + AFTER_MS_US, *self._values(record)))

    def rows(self) -> Iterator[pa.RecordBatch]:
        """First results without an operator and ticks, then the events."""
        ticks = [{"_tick_ts": tick} for tick in self._ticks]
        schema = self._decoder.schema
        # One batch each, because Spark keeps a batch in memory.
        for kind, number, data in self._settled():
            settled = {"_kind": kind, "_rows": number, "_data": data}
            yield pa.RecordBatch.from_pylist([settled], schema=schema)
        if rows := ticks:
            yield pa.RecordBatch.from_pylist(rows, schema=schema)
        for begin in range(0, len(self._events), _ROWS_PER_BATCH):
            yield self._decoder.batch(self._events[begin : begin + _ROWS_PER_BATCH])

    def _settled(self) -> Iterator[tuple[str, int, bytes]]:
        dead = [letter for letters in self._dead.values() for letter in letters]
        for table, rows in ((DEAD_LETTERS, dead), (LATE_EVENTS, self._late)):
            for number, piece in encode_pieces(table, rows):
                yield table.name, number, piece
        counts = Counter(
            dead=len(dead),
            late=len(self._late),
            tick_records=sum(self._data_ticks.values()),
            # Subtracted again for each event that passes deduplication (`native_query`).
            duplicates=len(self._events),
        )
        if left_out := self._others.total():
            counts["others"] = left_out
        times = self._watch.times()
        counts["records"] = times.records
        if times.records:
            found = {**counts, "watermark_ms": self._watermark_ms, "times": times.to_json()}
            yield KIND_COUNTS, 1, json.dumps(found).encode()


def _spark_type(field: Field) -> str:
    return f"array<{_TYPES[field.items]}>" if field.kind == "list" else _TYPES[field.kind]


def _arrow_type(field: Field) -> pa.DataType:
    return pa.list_(_ARROW[field.items]) if field.kind == "list" else _ARROW[field.kind]


def _exact(field: Field, values: Iterable[Any]) -> list[Any]:
    """The values of a column, with numbers as decimals."""
    if field.kind == "number":
        return list(map(to_decimal, values))
    if field.items == "number":
        return [None if items is None else list(map(to_decimal, items)) for items in values]
    return list(values)


def column_problems(fields: Iterable[Field]) -> Iterator[str]:
    """Yield why fields cannot be columns of Spark's own operators."""
    for field in fields:
        remedy = ""
        if field.kind == "object":
            remedy = f"Declare its members, such as path='{field.place}.id'."
        elif field.kind == "list" and not field.items:
            remedy = "Declare the kind of its items, such as items='text'."
        elif field.kind == "time" and field.unit != "iso" and field.name != EVENT_TIME.name:
            remedy = "Declare it as a number."
        if remedy:
            yield (
                f"field {field.name}: expected a column of Spark, found a {field.kind} that has no type of a"
                f" column. {remedy}"
            )


def to_decimal(number: int | float | None) -> Decimal | None:
    """Convert a number to nine decimals, rounded half up from its shortest decimal representation.

    Args:
        number: A finite number with at most 29 digits before the point.
    """
    if number is None:
        return None
    return Decimal(repr(number)).quantize(_BILLIONTH, ROUND_HALF_UP, _EXACT)
