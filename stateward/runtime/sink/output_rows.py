"""What a processor puts out: per table its rows in pieces, each an Arrow IPC stream, and counts.

A row of Spark costs microseconds and a batch of Arrow next to nothing per row, so rows leave Python packed:
``kind string, rows bigint, data binary``. ``kind`` is the name of a table, or `KIND_COUNTS` with JSON: the
names in `COUNT_NAMES` and ``watermark_ms``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stateward.contract.conditions import Condition, ConditionError
from stateward.runtime.api.tables import Table, arrow_schema

KIND_COUNTS = "counts"
# The packed rows; `lanes.OUTPUT_DDL` for Spark.
OUTPUT_SCHEMA = pa.schema([("kind", pa.string()), ("rows", pa.int64()), ("data", pa.binary())])
BOUND_NAMES = ("held_full", "folded_early", "below_floor", "ids_full", "ids_forgotten")
"""What the bounds of keys have cost: see `tables.BATCH_COUNTS`."""
PIECE_BYTES = 8_000_000
"""Bytes of rows, about, in one packed row: Spark moves a packed row as a whole, in the JVM's memory."""
OUTCOME_NAMES = ("accepted", "dead", "late", "duplicates", "tick_records", "others")
"""What a record that Kafka has delivered can become: exactly one of these."""
COUNT_NAMES = (*OUTCOME_NAMES, "records", *BOUND_NAMES)

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999: what every reader of Delta can hold (ms since 1970 UTC)."""

_MILLISECONDS = pa.timestamp("ms", tz="UTC")


class SchemaError(ConditionError, ValueError):
    """Rows are not those of the table they are for: the stream's code is wrong."""

    condition = Condition.ROWS_INVALID


@lru_cache
def row_schema(table: Table) -> pa.Schema:
    """The Arrow schema of a table's rows: of its `Table.row_columns`."""
    schema = arrow_schema(table)
    return pa.schema([schema.field(column.name) for column in table.row_columns])


def encode_rows(table: Table, rows: Sequence[tuple[Any, ...]]) -> bytes:
    """Pack rows of a table.

    Args:
        table: Where they belong.
        rows: Values in the order of `Table.row_columns`; timestamps as int milliseconds since 1970
            UTC, or None. One beyond `FIRST_MS` or `LAST_MS` becomes that: a producer may have stamped a
            record in nanoseconds, and the batch has to go on.

    Raises:
        SchemaError: A row has too few or too many values.
        pyarrow.ArrowException: A value does not fit its column.
    """
    return _packed(_rows(table, rows))


def encode_pieces(table: Table, rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, bytes]]:
    """Pack rows as `encode_rows` does, in order, in pieces of at most `PIECE_BYTES` or one row.

    Yields:
        How many rows a piece has, and the piece.
    """
    if rows:
        for piece in _cut(_rows(table, rows)):
            yield piece.num_rows, _packed(piece)


def _cut(rows: pa.Table) -> Iterator[pa.Table]:
    if rows.nbytes <= PIECE_BYTES or rows.num_rows == 1:
        yield rows
        return
    half = rows.num_rows // 2
    yield from _cut(rows.slice(0, half))
    yield from _cut(rows.slice(half))


def _rows(table: Table, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    schema = row_schema(table)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    if len(columns) != len(schema):
        raise SchemaError(
            f"table {table.name}: expected rows of {len(schema)} values ({', '.join(schema.names)}), "
            f"found {len(columns)}"
        )
    arrays = [_array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def encode_table(table: Table, rows: pa.Table) -> bytes:
    """Pack rows that are in Arrow already.

    Args:
        table: Where they belong.
        rows: Its `Table.row_columns`, in any order.

    Raises:
        KeyError: A column is missing.
        pyarrow.ArrowException: A column does not fit.
    """
    schema = row_schema(table)
    return _packed(rows.select(schema.names).cast(schema))


def _packed(rows: pa.Table) -> bytes:
    target = pa.BufferOutputStream()
    with pa.ipc.new_stream(target, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(target.getvalue())


def decode_rows(data: bytes | memoryview | pa.Buffer) -> pa.Table:
    """The rows packed by `encode_rows`; refers to ``data`` and copies nothing."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        found = pa.array(values, pa.int64())
        not_after = pc.min_element_wise(found, LAST_MS, skip_nulls=False)
        within = pc.max_element_wise(not_after, FIRST_MS, skip_nulls=False)
        return within.cast(_MILLISECONDS).cast(kind)
    return pa.array(values, kind)
