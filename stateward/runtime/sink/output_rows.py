"""The output of a processor: the rows of each table in pieces, each an Arrow IPC stream, and counts.

A Spark row costs microseconds and a row in an Arrow batch almost nothing, so rows leave Python packed: ``kind
string, rows bigint, data binary``. ``kind`` is the name of a table, `KIND_FILES` for rows that the task has
written itself (`row_files`), or `KIND_COUNTS` with JSON: the names in `COUNT_NAMES` and ``watermark_ms``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stateward.contract.conditions import Condition, ConditionError
from stateward.contract.stream_status import BOUNDS, OUTCOMES
from stateward.runtime.api.tables import Table, arrow_schema

KIND_COUNTS, KIND_FILES = "counts", "files"
# The packed rows; for Spark `packed_format.OUTPUT_DDL`.
OUTPUT_SCHEMA = pa.schema([("kind", pa.string()), ("rows", pa.int64()), ("data", pa.binary())])
PIECE_BYTES = 8_000_000
"""Approximate size of a packed row: Spark keeps each one as a whole in the JVM's memory."""
OUTCOME_NAMES = (*OUTCOMES, "tick_records", "others")
"""The possible outcomes of a record from Kafka; each record has exactly one."""
COUNT_NAMES = (*OUTCOME_NAMES, "records", *BOUNDS)

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999, which every reader of Delta supports (ms since 1970 UTC)."""

_MILLISECONDS = pa.timestamp("ms", tz="UTC")


class SchemaError(ConditionError, ValueError):
    """Rows do not match their table: an error in the stream's code."""

    condition = Condition.ROWS_INVALID


@lru_cache
def row_schema(table: Table) -> pa.Schema:
    """The Arrow schema of a table's `Table.row_columns`."""
    schema = arrow_schema(table)
    return pa.schema([schema.field(column.name) for column in table.row_columns])


def encode_rows(table: Table, rows: Sequence[tuple[Any, ...]]) -> bytes:
    """Pack rows of a table.

    Args:
        table: The table.
        rows: Values in the order of `Table.row_columns`; timestamps as int milliseconds since 1970 UTC, or
            None. Timestamps are clamped to `FIRST_MS` and `LAST_MS`: a producer may have set nanoseconds,
            which must not fail the batch.

    Raises:
        SchemaError: A row has too few or too many values.
        pyarrow.ArrowException: A value does not fit its column.
    """
    return pack(rows_of(table, rows))


def encode_pieces(table: Table, rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, bytes]]:
    """Pack rows as `encode_rows` does, in order, in pieces of at most `PIECE_BYTES` or one row.

    Yields:
        The number of rows of a piece, and the piece.
    """
    if rows:
        for piece in cut(rows_of(table, rows)):
            yield piece.num_rows, pack(piece)


def cut(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows, in order, in pieces of at most `PIECE_BYTES` or one row."""
    if rows.nbytes <= PIECE_BYTES or rows.num_rows == 1:
        yield rows
        return
    half = rows.num_rows // 2
    yield from cut(rows.slice(0, half))
    yield from cut(rows.slice(half))


def rows_of(table: Table, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Rows of a table in Arrow, by `row_schema`; see `encode_rows`."""
    schema = row_schema(table)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    if len(columns) != len(schema):
        raise SchemaError(
            f"table {table.name}: expected rows of {len(schema)} values ({', '.join(schema.names)}), "
            f"found {len(columns)}"
        )
    arrays = []
    for values, field in zip(columns, schema, strict=True):
        try:
            arrays.append(_array(values, field.type))
        except pa.ArrowException as error:
            raise type(error)(f"table {table.name}, column {field.name}: {error}") from error
    return pa.Table.from_arrays(arrays, schema=schema)


def fitted(table: Table, rows: pa.Table) -> pa.Table:
    """Rows that are already in Arrow, by `row_schema`.

    Args:
        table: The table.
        rows: Its `Table.row_columns`, in any order.

    Raises:
        KeyError: A column is missing.
        pyarrow.ArrowException: A column does not fit.
    """
    schema = row_schema(table)
    return rows.select(schema.names).cast(schema)


def with_marks(table: Table, rows: pa.Table, marks: Mapping[str, Any]) -> pa.Table:
    """The rows with all columns of the table: those of a shared one are marked with constants."""
    if not marks:
        return rows
    schema = arrow_schema(table)
    columns = [
        pa.repeat(pa.scalar(marks[field.name], field.type), rows.num_rows)
        if field.name in marks
        else rows.column(field.name)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def pack(rows: pa.Table) -> bytes:
    """Pack rows; `decode_rows` is the reverse."""
    target = pa.BufferOutputStream()
    with pa.ipc.new_stream(target, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(target.getvalue())


def decode_rows(data: bytes | memoryview | pa.Buffer) -> pa.Table:
    """Unpack the rows of `encode_rows`, without copying ``data``."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        found = pa.array(values, pa.int64())
        not_after = pc.min_element_wise(found, LAST_MS, skip_nulls=False)
        within = pc.max_element_wise(not_after, FIRST_MS, skip_nulls=False)
        return within.cast(_MILLISECONDS).cast(kind)
    return pa.array(values, kind)
