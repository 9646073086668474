"""Writes data files of a Delta table separately from the commit that adds them.

The files can be synced before the commit.
"""

from __future__ import annotations

import json
import math
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction

from stateward.contract.storage import filesystem_at

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_LONGEST_BOUND = 64
_PAST_ALL = "\U0010ffff"


def write_data_files(uri: str, rows: pa.Table, partition_by: Sequence[str]) -> list[AddAction]:
    """Write rows into new files of a table, one per partition.

    Args:
        uri: The table.
        rows: Rows with the columns and types of the table.
        partition_by: The table's partition columns.

    Returns:
        The actions for the commit that adds the files.

    Raises:
        OSError: A file cannot be written; all are removed.
    """
    filesystem, root = filesystem_at(uri)
    written: list[AddAction] = []
    try:
        for values, part in _partitions(rows, partition_by):
            folder = "".join(f"{name}={_folder_of(value)}/" for name, value in values.items())
            path = f"{folder}part-00000-{uuid.uuid4()}-c000.zstd.parquet"
            written.append(AddAction(path, 0, values, int(time.time() * 1000), True, _stats(part)))
            written[-1].size = _write(filesystem, f"{root}/{path}", part)
    except BaseException:
        for one in written:
            with suppress(OSError):
                filesystem.rm_file(f"{root}/{one.path}")
        raise
    return written


def _write(filesystem: Any, path: str, rows: pa.Table) -> int:
    """Write a file and return its size in bytes."""
    if "file" in filesystem.protocol:
        filesystem.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH120 - fsspec speaks in texts
    with filesystem.open(path, "wb") as file:
        # Arrow counts what it writes: not every implementation can say where it is in a file.
        counted = pa.PythonFile(file, mode="w")
        # Without Arrow's own schema, which readers of Delta tables do not use.
        pq.write_table(rows, counted, compression="zstd", store_schema=False)
        return int(counted.tell())


def _partitions(
    rows: pa.Table, partition_by: Sequence[str]
) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """The partition values, as Delta writes them, and the rows of each partition without these columns."""
    if not partition_by:
        yield {}, rows
        return
    names = list(partition_by)
    for found in rows.select(names).group_by(names).aggregate([]).to_pylist():
        mask = None
        for name, value in found.items():
            column = rows[name]
            is_it = pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, value), False)
            mask = is_it if mask is None else pc.and_(mask, is_it)
        yield {name: _text(value) for name, value in found.items()}, rows.filter(mask).drop(names)


def _text(value: Any) -> str | None:
    if value is None or value == "":
        return None  # Delta has no empty text as a partition value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _folder_of(value: str | None) -> str:
    return _NO_VALUE if value is None else quote(value, safe="")


def _stats(rows: pa.Table) -> str:
    """Delta's statistics, with which readers skip files."""
    lowest, highest, nulls = {}, {}, {}
    for name in rows.schema.names:
        column = rows[name]
        nulls[name] = column.null_count
        if (bounds := _bounds(column)) is not None:
            lowest[name], highest[name] = bounds
    stats = {"numRecords": rows.num_rows, "minValues": lowest, "maxValues": highest, "nullCount": nulls}
    return json.dumps(stats, ensure_ascii=False)


def _bounds(column: pa.ChunkedArray) -> tuple[Any, Any] | None:
    """The minimum and maximum as Delta writes them; None for types without statistics."""
    kind = column.type
    if column.null_count == len(column) or pa.types.is_binary(kind) or pa.types.is_nested(kind):
        return None
    found = pc.min_max(column).as_py()
    low, high = found["min"], found["max"]
    if isinstance(low, float):
        # In Spark NaN is greater than every number, but it is in no bounds here.
        in_order = math.isfinite(low) and math.isfinite(high) and not pc.any(pc.is_nan(column)).as_py()
        return (low, high) if in_order else None
    if isinstance(low, str):
        return low[:_LONGEST_BOUND], high if len(high) <= _LONGEST_BOUND else high[
            :_LONGEST_BOUND
        ] + _PAST_ALL
    if isinstance(low, datetime):
        # Truncated to milliseconds, as by every writer of Delta; readers allow for that.
        low, high = (at.isoformat(timespec="milliseconds").replace("+00:00", "Z") for at in (low, high))
        return low, high
    if isinstance(low, date):
        return low.isoformat(), high.isoformat()
    # Readers parse JSON numbers as floats, so a decimal would not be exact.
    return (low, high) if isinstance(low, bool | int) else None


def add_files(
    table: DeltaTable, files: Sequence[AddAction], rows: int, transactions: Sequence[Transaction]
) -> None:
    """Add files to a table in one commit.

    Args:
        table: Its current version.
        files: The actions from `write_data_files`, whose files are synced.
        rows: The number of rows in them, for the table's history.
        transactions: Transactions of the commit; Delta rejects it if a newer commit has one of the same name.

    Raises:
        CommitFailedError: Conflict with another commit.
    """
    table.create_write_transaction(
        [*files],
        "append",
        table.schema(),
        table.metadata().partition_columns,
        commit_properties=CommitProperties(
            app_transactions=[*transactions],
            custom_metadata={"operationMetrics": {"num_added_files": len(files), "num_added_rows": rows}},
        ),
    )
