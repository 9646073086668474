"""Writes recomputed rows to tables of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from stateward.runtime.api.tables import Table
from stateward.runtime.sink.output_rows import decode_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_table(folded: DataFrame, table: Table, uri: str) -> int:
    """Replace the table at ``uri`` by the recomputed rows, and return their number."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for data in batch.column("data"):
                yield from decode_rows(data.as_buffer()).to_batches()

    mine = folded.where(F.col("kind") == table.name)
    ddl = ", ".join(f"`{column.name}` {column.type}" for column in table.columns)
    replace_table(mine.select("data").mapInArrow(rows, ddl), uri, table.partition_by)
    return int(mine.agg(F.coalesce(F.sum("rows"), F.lit(0))).collect()[0][0])


def replace_table(rows: DataFrame, uri: str, partition_by: tuple[str, ...]) -> None:
    """Replace the table at ``uri``, its columns too, by the rows."""
    writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    (writer.partitionBy(*partition_by) if partition_by else writer).save(uri)
