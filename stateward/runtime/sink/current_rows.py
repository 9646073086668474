"""Tables with one current row per key: the last row that a batch has of a key replaces the one there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable, WriterProperties

_ORDER = "__order"


def newest_rows(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The last row of each key, in the order of the rows; a key's rows are in the order of their events."""
    numbered = rows.select(list(key)).append_column(_ORDER, pa.array(range(rows.num_rows), pa.int64()))
    last = numbered.group_by(list(key)).aggregate([(_ORDER, "max")])[f"{_ORDER}_max"]
    return rows.take(pc.take(last, pc.sort_indices(last)))


def upsert(
    table: DeltaTable,
    rows: pa.Table,
    key: Sequence[str],
    writer: WriterProperties,
    commit: CommitProperties,
) -> None:
    """Put rows into a table, in one commit: a key that is there already gets the new row.

    Args:
        table: Has one row per key.
        rows: At most one per key, all of the table's columns; no key is null.
        key: The columns that are the key.
        writer: How files are written.
        commit: Of the transaction.
    """
    same = " AND ".join(f"kept.{column} = new.{column}" for column in key)
    (
        table.merge(
            rows,
            predicate=same,
            source_alias="new",
            target_alias="kept",
            writer_properties=writer,
            commit_properties=commit,
        )
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
