"""Compares recomputed rows with the live ones: every row that only one side has, its kind, and its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import functions as F

from stateward.contract.privacy.forgotten import digest_of
from stateward.quality.privacy.masking import mask
from stateward.recompute.explaining import EVENTS, EVENTS_DDL, IN_ALL, Explaining
from stateward.recompute.lookback import Span
from stateward.recompute.request import BackfillError
from stateward.recompute.tables import replace_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from stateward.runtime.api.tables import Table

LIVE, BACKFILL = "live", "backfill"
SHOWN = 20

MISSING = "missing in the table"
NOT_IN_EVENTS = "not in the events"
OTHER_VALUES = "other values"
TWICE = "more than once in the table"

_ONLY_IN, _KIND, _DIFFERS_IN, _SURE = "only_in", "difference", "differs_in", "sure"
_ADDED = (_ONLY_IN, _KIND, _DIFFERS_IN, _SURE, EVENTS, IN_ALL)
_ROW, _OTHER, _IS_OPEN, _BASIS = "_row", "_other", "_is_open", "_basis"


@dataclass(frozen=True)
class Difference:
    """The differences of one table.

    Attributes:
        only_live: Rows that only the live table has.
        only_backfill: Rows that only the recomputed one has.
        compared: Rows of both; a row with other values counts once.
        different: Those that differ.
        sure: Those whose only possible reason is an error.
        kinds: Number of rows by kind of difference.
        shown: Some of the rows that only one side has, with personal values masked.
    """

    only_live: int = 0
    only_backfill: int = 0
    compared: int = 0
    different: int = 0
    sure: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    shown: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_none(self) -> bool:
        """Whether the tables are equal."""
        return not self.only_live and not self.only_backfill


@dataclass(frozen=True)
class Comparing:
    """How the tables of one recomputation are compared.

    Attributes:
        spark: The session.
        span: The requested rows.
        sure: The part of it in which a difference can only be an error; None if there is none.
        explaining: Finds the events.
        secret: Masks values of the rows that are shown, and identifies forgotten keys.
        forgotten: HMACs of keys whose records are gone, and which this stream has not forgotten: their rows
            are not compared.
    """

    spark: SparkSession
    span: Span
    sure: Span | None
    explaining: Explaining
    secret: str
    forgotten: frozenset[str] = frozenset()

    def compare(self, table: Table, *, live_uri: str, uri: str, into: str) -> Difference:
        """Compare the recomputed rows with the live ones of the same span.

        In a table with one current row per key, only keys whose live row is not newer than the span count.
        For the others, the live table no longer has the row that was current then.

        Args:
            table: Its declaration.
            live_uri: The live table.
            uri: The recomputed table.
            into: Table for the rows that only one of the two has; replaced.

        Raises:
            BackfillError: A column of the table has the name of one that would be added.
        """
        _require_names(table)
        everything, live, made = self._sides(table, live_uri, uri)
        only_live = live.exceptAll(made).persist(StorageLevel.DISK_ONLY)
        only_made = made.exceptAll(live).persist(StorageLevel.DISK_ONLY)
        if only_live.isEmpty() and only_made.isEmpty():
            found = self.spark.createDataFrame([], _ddl(table))
        else:
            found = self._found(table, only_live, only_made, everything, made)
            found = self.explaining.explained(found, table, _BASIS)
        replace_table(found, into, ())
        only_live.unpersist()
        only_made.unpersist()
        return _counted(self.spark.read.format("delta").load(into), table, made.count(), self.secret)

    def _sides(self, table: Table, live_uri: str, uri: str) -> tuple[DataFrame, DataFrame, DataFrame]:
        """The live table, its rows to compare, and the recomputed rows to compare them with."""
        names = [column.name for column in table.columns]
        everything = self._known(self.spark.read.format("delta").load(live_uri).select(*names))
        made = self._known(self.spark.read.format("delta").load(uri).select(*names))
        at = F.unix_millis(table.came_at)
        live = everything.where((at >= self.span.from_ms) & (at < self.span.to_ms))
        if table.current_by:
            newer = everything.where(at >= self.span.to_ms).select(*table.current_by)
            made = made.join(newer, list(table.current_by), "left_anti").select(*names)
        return everything, live, made

    def _known(self, rows: DataFrame) -> DataFrame:
        """The rows without those of forgotten keys."""
        field = self.explaining.key
        if not self.forgotten or field not in rows.columns:
            return rows
        secret, forgotten = self.secret, self.forgotten

        def kept(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                keys = batch.column(field).to_pylist()
                keep = [digest_of(secret, field, str(key)) not in forgotten for key in keys]
                yield batch.filter(pa.array(keep, pa.bool_()))

        return rows.mapInArrow(kept, rows.schema)

    def _found(
        self, table: Table, only_live: DataFrame, only_made: DataFrame, everything: DataFrame, made: DataFrame
    ) -> DataFrame:
        """The rows of both sides, judged, each with the row whose events explain it."""
        by = table.identity(self.explaining.key)
        row, other = F.col(_ROW), F.col(_OTHER)
        there = _with_twin(only_live, made, by, only_made)
        kind = (
            F.when(other.isNull(), NOT_IN_EVENTS).when(F.col(_IS_OPEN), OTHER_VALUES).otherwise(F.lit(TWICE))
        )
        basis = F.coalesce(other, row)
        lives = there.select(*self._judged(table, LIVE, kind, basis, row))
        here = _with_twin(only_made, everything, by, only_live)
        kind = F.when(other.isNull(), MISSING).otherwise(F.lit(OTHER_VALUES))
        return lives.unionByName(here.select(*self._judged(table, BACKFILL, kind, row, other)))

    def _judged(self, table: Table, side: str, kind: Column, basis: Column, live: Column) -> list[Column]:
        names = [column.name for column in table.columns]
        one, other = F.col(_ROW), F.col(_OTHER)
        differs = F.array(*(F.when(~one[name].eqNullSafe(other[name]), F.lit(name)) for name in names))
        return [
            F.lit(side).alias(_ONLY_IN),
            kind.alias(_KIND),
            F.when(other.isNotNull(), F.filter(differs, lambda name: name.isNotNull())).alias(_DIFFERS_IN),
            self._is_sure(table, basis, live).alias(_SURE),
            *(one[name].alias(name) for name in names),
            basis.alias(_BASIS),
        ]

    def _is_sure(self, table: Table, basis: Column, live: Column) -> Column:
        if self.sure is None:
            return F.lit(False)
        at = F.unix_millis(basis[table.came_at])
        sure = (at >= self.sure.from_ms) & (at < self.sure.to_ms)
        if table.current_by:
            # The live table may have a newer row meanwhile.
            live_at = F.unix_millis(live[table.came_at])
            sure &= F.coalesce(live_at < self.sure.to_ms, F.lit(True))
        return F.coalesce(sure, F.lit(False))


def _require_names(table: Table) -> None:
    taken = sorted({column.name for column in table.columns} & {*_ADDED})
    if taken:
        raise BackfillError(
            f"table {table.name}: expected none of the columns {', '.join(_ADDED)}, which a comparison adds, "
            f"found {', '.join(taken)}. Rename the column in the declaration, or leave out --compare."
        )


def _with_twin(rows: DataFrame, others: DataFrame, by: Sequence[str], open_rows: DataFrame) -> DataFrame:
    """Rows as structs, each beside the row of the other side with the same identity.

    Args:
        rows: Rows of one side.
        others: All rows of the other.
        by: `Table.identity`.
        open_rows: Those of ``others`` that only the other side has.
    """
    mine = rows.select(F.struct("*").alias(_ROW))
    # Renamed, because both sides may come from one table, and Spark could not distinguish their columns.
    asked = rows.select(F.struct(*by).alias("_asked")).distinct()
    twins = others.join(asked, _same(by, "", "_asked."), "left_semi").dropDuplicates(list(by))
    twins = twins.select(F.struct("*").alias(_OTHER))
    unmatched = open_rows.select(F.struct(*by).alias("_open"), F.lit(True).alias(_IS_OPEN)).distinct()
    found = mine.join(twins, _same(by, f"{_ROW}.", f"{_OTHER}."), "left")
    return found.join(unmatched, _same(by, f"{_ROW}.", "_open."), "left")


def _same(by: Sequence[str], one: str, other: str) -> Column:
    return reduce(and_, (F.col(f"{one}{name}").eqNullSafe(F.col(f"{other}{name}")) for name in by))


def _ddl(table: Table) -> str:
    columns = ", ".join(f"`{column.name}` {column.type}" for column in table.columns)
    return (
        f"{_ONLY_IN} string, {_KIND} string, {_DIFFERS_IN} array<string>, {_SURE} boolean, "
        f"{columns}, {EVENTS_DDL}"
    )


def _counted(written: DataFrame, table: Table, made: int, secret: str) -> Difference:
    """Summarize a table of differences."""
    live, backfill, kinds, sure = 0, 0, Counter[str](), 0
    for row in written.groupBy(_ONLY_IN, _KIND, _SURE).count().collect():
        side, kind, count = row[_ONLY_IN], row[_KIND], row["count"]
        live, backfill = live + count * (side == LIVE), backfill + count * (side == BACKFILL)
        if (side, kind) == (LIVE, OTHER_VALUES):
            continue  # its other row counts
        kinds[kind] += count
        sure += count * row[_SURE]
    order: list[Column] = [F.col(table.came_at), F.col(_ONLY_IN).desc(), *map(F.col, table.current_by)]
    order = [F.col(_SURE).desc(), *order]
    shown = [
        {
            name: _masked(value, secret) if name in table.personal else _plain(value)
            for name, value in row.asDict().items()
        }
        for row in written.drop(_SURE, EVENTS, IN_ALL).orderBy(*order).limit(SHOWN).collect()
    ]
    different = kinds.total()
    return Difference(live, backfill, made - backfill + different, different, sure, dict(kinds), shown)


def _masked(value: Any, secret: str) -> str | None:
    """Mask a text or bytes, or a list of them; the rows of one person have the same mask."""
    if value is None:
        return None
    found = value if isinstance(value, list) else [value]
    return ", ".join("" if one is None else mask(secret, one) for one in found)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, and other types as text."""
    if isinstance(value, list):
        return ", ".join(str(one) for one in value)
    return value if value is None or isinstance(value, str | int | float) else str(value)
