"""Recomputed rows into tables of their own, and the difference between those and the live ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from spark_jobs.backfill.reach import Span
from spark_jobs.runtime.rows import decode_rows
from spark_jobs.runtime.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LIVE, BACKFILL = "live", "backfill"
SHOWN = 20
_ONLY_IN = "only_in"


@dataclass(frozen=True)
class Difference:
    """Of one table.

    Attributes:
        only_live: Rows that only the live table has.
        only_backfill: Rows that only the recomputed one has.
        shown: Some of them, with ``only_in``.
    """

    only_live: int
    only_backfill: int
    shown: list[dict[str, Any]]

    @property
    def is_none(self) -> bool:
        """Whether the tables are equal."""
        return not self.only_live and not self.only_backfill


def write_table(folded: DataFrame, table: Table, uri: str) -> int:
    """Replace the table at ``uri`` by the recomputed rows, and return their number."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for data in batch.column("data"):
                yield from decode_rows(data.as_buffer()).to_batches()

    mine = folded.where(F.col("kind") == table.name)
    ddl = ", ".join(f"`{column.name}` {column.type}" for column in table.columns)
    _replace(mine.select("data").mapInArrow(rows, ddl), uri, table.partition_by)
    return int(mine.agg(F.coalesce(F.sum("rows"), F.lit(0))).collect()[0][0])


def compare(
    spark: SparkSession, table: Table, span: Span, *, live_uri: str, uri: str, into: str
) -> Difference:
    """Compare the recomputed rows with the live ones of the same span.

    Of a table with one current row per key only the keys count whose live row is not newer than the span: of
    the others the live table no longer has the row that was current then.

    Args:
        spark: The session.
        table: Its shape.
        span: Which rows.
        live_uri: The live table.
        uri: The recomputed table.
        into: Where the rows go that only one of the two has; replaced.
    """
    names = [column.name for column in table.columns]
    everything = spark.read.format("delta").load(live_uri).select(*names)
    made = spark.read.format("delta").load(uri).select(*names)
    at = F.unix_millis(table.came_at)
    live = everything.where((at >= span.from_ms) & (at < span.to_ms))
    if table.current_by:
        newer = everything.where(at >= span.to_ms).select(*table.current_by)
        made = made.join(newer, list(table.current_by), "left_anti").select(*names)
    only = _marked(live.exceptAll(made), LIVE).unionByName(_marked(made.exceptAll(live), BACKFILL))
    _replace(only, into, ())
    written = spark.read.format("delta").load(into)
    counts = {row[_ONLY_IN]: row["count"] for row in written.groupBy(_ONLY_IN).count().collect()}
    order: list[Column] = [F.col(table.came_at), F.col(_ONLY_IN).desc(), *map(F.col, table.current_by)]
    shown = [
        {name: _plain(value) for name, value in row.asDict().items()}
        for row in written.orderBy(*order).limit(SHOWN).collect()
    ]
    return Difference(counts.get(LIVE, 0), counts.get(BACKFILL, 0), shown)


def _marked(rows: DataFrame, side: str) -> DataFrame:
    return rows.select(F.lit(side).alias(_ONLY_IN), "*")


def _plain(value: Any) -> Any:
    """A value as JSON has it; what it has not as text."""
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _replace(rows: DataFrame, uri: str, partition_by: tuple[str, ...]) -> None:
    writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    (writer.partitionBy(*partition_by) if partition_by else writer).save(uri)
