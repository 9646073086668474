"""A table with one current row per key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties

from stateward.runtime.api.tables import Column, Table, arrow_schema
from stateward.runtime.sink.table_commits import newest_rows, upsert

DEVICES = Table(
    "devices",
    "One device",
    (
        Column("site", "string", "Where"),
        Column("device_id", "string", "Which"),
        Column("mode", "string", "How it is"),
        Column("codes", "array<string>", "What it said"),
        Column("seen_at", "timestamp", "When"),
    ),
    current_by=("site", "device_id"),
)


def rows(*values: tuple[Any, ...]) -> pa.Table:
    schema = arrow_schema(DEVICES)
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in values], schema=schema)


def put(folder: Path, batch: int, *values: tuple[Any, ...]) -> None:
    upsert(
        DeltaTable(str(folder)),
        newest_rows(rows(*values), DEVICES.current_by),
        DEVICES.current_by,
        WriterProperties(compression="ZSTD"),
        CommitProperties(app_transactions=[Transaction("g1:devices", batch)]),
    )


def test_of_a_batch_the_last_row_of_each_key_is_taken_in_the_order_of_the_rows() -> None:
    found = newest_rows(
        rows(
            ("a", "1", "idle", [], 1),
            ("b", "1", "idle", [], 2),
            ("a", "1", "running", ["E1"], 3),
            ("a", "2", "error", None, 0),
        ),
        DEVICES.current_by,
    )

    assert found["mode"].to_pylist() == ["idle", "running", "error"]
    assert found["codes"].to_pylist() == [[], ["E1"], None]


def test_no_rows_are_no_rows() -> None:
    assert newest_rows(rows(), DEVICES.current_by).num_rows == 0


def test_a_key_that_is_there_gets_the_new_row_and_others_keep_theirs(tmp_path: Path) -> None:
    DEVICES.create(str(tmp_path))

    put(tmp_path, 1, ("a", "1", "idle", ["E1"], 1), ("a", "2", "idle", [], 1))
    put(tmp_path, 2, ("a", "1", "running", [], 2), ("b", "1", "error", None, 2))

    table = DeltaTable(str(tmp_path))
    found = {(row["site"], row["device_id"]): row["mode"] for row in table.to_pyarrow_table().to_pylist()}
    assert found == {("a", "1"): "running", ("a", "2"): "idle", ("b", "1"): "error"}
    assert table.to_pyarrow_table().num_rows == 3
    assert table.transaction_version("g1:devices") == 2
