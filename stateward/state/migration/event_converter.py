"""Converts the rows of a table to events of a stream on Spark's own operators, and reads them.

A row is written as the JSON of a record and parsed as one, so that it is what the stream would have read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from stateward.contract.storage import filesystem_at
from stateward.runtime.api.record_fields import Field
from stateward.runtime.ingest.event_rows import AFTER_MS_US, EventRowDecoder
from stateward.runtime.ingest.parse import Parser, Rejection
from stateward.state.migration.bucket_writer import StagedReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

INPUT: Final = "input"
"""The column with the name of the input, of a stream that reads several topics."""

_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True)
class EventConverter:
    """Converts rows to events of one input.

    Attributes:
        decoder: The input's decoder.
        input: Its name; empty for a stream of one topic.
        columns: The columns of the key.
        separator: Separator between several columns.
        now_ms: The time, milliseconds since 1970 UTC.
    """

    decoder: EventRowDecoder
    input: str
    columns: tuple[str, ...]
    separator: str
    now_ms: int

    @property
    def required(self) -> list[str]:
        """The columns that the table must have, besides those of the key."""
        return [one.name for one in self.decoder.fields if one.required and one.name != self.decoder.key]

    def batches(self, found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows with the decoder's columns, ``_key``, and in ``_wrong`` why a row is no event."""
        parse = Parser(tuple(map(_by_name, self.decoder.fields)), self.decoder.bounds).parse
        nothing = [None] * len(self.decoder.columns)
        for batch in found:
            if not batch.num_rows:
                continue
            events: list[tuple[Any, ...]] = []
            keys: list[str] = []
            wrong: list[str | None] = []
            for row in batch.to_pylist():
                parsed = parse(self.record(row), self.now_ms)
                if isinstance(parsed, Rejection):
                    events.append((None, *nothing))
                    keys.append("")
                    wrong.append(_reason(parsed))
                    continue
                record, event_ms = parsed
                values = (getattr(record, field.name) for field in self.decoder.columns)
                events.append((event_ms * 1000 + AFTER_MS_US, *values))
                keys.append(getattr(record, self.decoder.key))
                wrong.append(None)
            made = self.decoder.batch(events)
            arrays = [*made.columns, pa.array(keys, pa.string()), pa.array(wrong, pa.string())]
            yield pa.RecordBatch.from_arrays(arrays, names=[*made.schema.names, "_key", "_wrong"])

    def record(self, row: Mapping[str, Any]) -> bytes:
        """The row as the JSON of a record; a field without a column, or without a value, is absent."""
        values = {field.name: _plain(field, row.get(field.name)) for field in self.decoder.fields}
        parts = [row[name] for name in self.columns]
        has_key = all(part is not None and part != "" for part in parts)
        values[self.decoder.key] = self.separator.join(map(str, parts)) if has_key else None
        present = {name: value for name, value in values.items() if value is not None}
        return json.dumps(present, default=str).encode()


def _by_name(field: Field) -> Field:
    """The field as a column has it: by its name, a time in ISO 8601, the id of a record's place as a text."""
    return replace(field, path="", unit="iso", kind="text" if field.kind == "place" else field.kind)


def _plain(field: Field, value: Any) -> Any:
    """A value as JSON has it; texts of a CSV become what their field is, if they can."""
    if field.kind == "time":
        return _instant(value)
    if field.items == "number" and isinstance(value, list):
        return list(map(_number, value))
    if field.kind == "number":
        return _number(value)
    if field.kind == "flag" and isinstance(value, str):
        return _FLAGS.get(value.lower(), value)
    return value


def _instant(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC).isoformat()
    return value


def _number(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, str):
        for kind in (int, float):
            with suppress(ValueError):
                return kind(value)
    return value


def _reason(why: Rejection) -> str:
    """Why a row is no event, without its values: a detail may have them."""
    return why.reason.value


class EventReader(StagedReader):
    """Reads staged events of one input."""

    def __init__(self, files: tuple[str, ...], begin: dict[str, Any], schema: pa.Schema) -> None:
        super().__init__(files, begin)
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The events in one file."""
        filesystem, path = filesystem_at(partition.uri)  # type: ignore[attr-defined]
        with filesystem.open(path, "rb") as file:
            for batch in pq.ParquetFile(file).iter_batches():
                yield from pa.Table.from_batches([batch]).cast(self._schema).to_batches()


def event_source(
    source: str, files: tuple[str, ...], begin: dict[str, Any], decoder: EventRowDecoder
) -> type[DataSource]:
    """A source of staged events, under a name of its own."""
    ddl, columns = decoder.ddl, decoder.schema

    class Staged(DataSource):
        @classmethod
        def name(cls) -> str:
            return source

        def schema(self) -> str:
            return ddl

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            return EventReader(files, begin, columns)

    return Staged
