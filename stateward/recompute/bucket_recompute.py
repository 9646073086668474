"""Buckets of events to a stream's rows: folded key by key, and filtered to the requested rows."""

from __future__ import annotations

import json
import marshal
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stateward.recompute.key_recompute import KeyFold
from stateward.recompute.lookback import EVER, Span
from stateward.recompute.reading import COUNTS_BUCKET
from stateward.runtime.api.stream_job import Output
from stateward.runtime.ingest.packed_format import OUTPUT_DDL
from stateward.runtime.sink.output_rows import KIND_COUNTS, OUTPUT_SCHEMA, encode_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHOWN_KEYS = 5
_PLACE_FIELDS = 2  # partition and offset, before the event

Events = Sequence[tuple[Any, ...]]


@dataclass
class Found:
    """The result of reading or folding events.

    Attributes:
        counts: By name: records and their outcomes, events, keys, and keys that are not exact.
        exact_from_ms: Time from which every key is exact; None if one never is.
        inexact_keys: Some of those that are not exact in the whole span.
    """

    counts: Counter[str] = field(default_factory=Counter)
    exact_from_ms: int | None = EVER
    inexact_keys: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        """Add the result of other events."""
        self.counts.update(other.counts)
        both = self.exact_from_ms, other.exact_from_ms
        self.exact_from_ms = None if None in both else max(time for time in both if time is not None)
        self.inexact_keys = sorted({*self.inexact_keys, *other.inexact_keys})[:_SHOWN_KEYS]

    def note_anchor(self, key: str, at_ms: int | None, span: Span) -> None:
        """Add the time from which a key is exact."""
        self.counts["keys"] += 1
        if at_ms is not None and at_ms <= span.from_ms:
            return
        self.add(Found(Counter(inexact=1), at_ms, [key]))

    def to_json(self) -> bytes:
        """Serialized for the driver."""
        return json.dumps([dict(self.counts), self.exact_from_ms, self.inexact_keys]).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Found:
        """From `to_json`."""
        counts, exact_from_ms, keys = json.loads(text)
        return cls(Counter(counts), exact_from_ms, keys)


@dataclass(frozen=True)
class Folding:
    """Folds the events of one bucket.

    Attributes:
        fold: Folds the events of one key.
        outputs: The stream's tables.
        span: The requested rows.
        known_ms: Time from which all events are known; None if all are.
    """

    fold: KeyFold
    outputs: tuple[Output, ...]
    span: Span
    known_ms: int | None

    def bucket(self, packed: pa.Table) -> pa.Table:
        """`OUTPUT_DDL` of the payloads of one bucket."""
        payloads = packed.column("payload").to_pylist()
        if packed.column("bucket")[0].as_py() == COUNTS_BUCKET:
            counts: Counter[str] = Counter()
            for payload in payloads:
                counts.update(json.loads(payload))
            return _table([(KIND_COUNTS, 1, Found(counts).to_json())])
        by_key: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for payload in payloads:
            for record in marshal.loads(payload):
                by_key[record[0]].append(record[1:])
        return _table(self._rows(by_key))

    def _rows(self, by_key: dict[str, list[tuple[Any, ...]]]) -> Iterator[tuple[str, int, bytes]]:
        found = Found()
        rows: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for key, records in by_key.items():
            # As in the stream: the offset decides between records with the same id and time.
            records.sort(key=lambda record: record[:_PLACE_FIELDS])
            events = [self.fold.event(record[_PLACE_FIELDS:]) for record in records]
            found.counts["events"] += len(events)
            times = sorted(event.event_ms for event in events)
            found.note_anchor(key, self.fold.exact_from(times, self.known_ms), self.span)
            folded = self.fold.rows(key, events)
            for output in self.outputs:
                rows[output.table.name] += rows_in_span(output, folded, self.span)
        for output in self.outputs:
            if mine := rows[output.table.name]:
                yield output.table.name, len(mine), encode_rows(output.table, mine)
        yield KIND_COUNTS, 1, found.to_json()


def rows_in_span(output: Output, rows: Iterable[tuple[Any, ...]], span: Span) -> Events:
    """Return one key's rows of a table whose time is in a span.

    For a table with one current row per key, return the last row before the span's end, if it is in the span.
    """
    at = [column.name for column in output.table.columns].index(output.table.came_at)
    mine = [row for row in rows if type(row) is output.row and row[at] < span.to_ms]
    if output.table.current_by:
        mine = mine[-1:]
    return [row for row in mine if span.holds(row[at])]


def folded(packed: DataFrame, how: Folding) -> DataFrame:
    """The rows of packed events, `OUTPUT_DDL`."""

    def bucket(found: pa.Table) -> pa.Table:
        return how.bucket(found)

    return packed.groupBy("bucket").applyInArrow(bucket, OUTPUT_DDL)


def _table(rows: Iterable[tuple[str, int, bytes]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(
        [pa.array(column, one.type) for column, one in zip(columns, OUTPUT_SCHEMA, strict=True)],
        schema=OUTPUT_SCHEMA,
    )
