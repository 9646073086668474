"""The table `quarantine`: every row that breaks an expectation, with where it came from.

All failing rows are written, however many: readers skip the rows that are in here. Values of personal columns
are masked; `row_hash` finds the row in the table again. Spark writes the rows in one commit under one
transaction id.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from stateward.contract import names
from stateward.quality.quarantine.row_hash import row_hash
from stateward.runtime.api.tables import Column, Table

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame

    from stateward.quality.privacy.masking import ColumnMasker
    from stateward.quality.quarantine.provenance import Origins

QUARANTINE = Table(
    names.QUARANTINE,
    "One row of a table that breaks one expectation, or one expectation that no row can be named for",
    (
        Column("stream", "string", "Stream that writes the table"),
        Column("table", "string", "The table"),
        Column("table_id", "string", "Delta's identifier of it"),
        Column("from_version", "long", "First Delta version that the validation looked at"),
        Column("table_version", "long", "Last one, at which the row is in the table"),
        Column("run_id", "string", "The validation"),
        Column("suite", "string", "Its suite"),
        Column("name", "string", "The expectation, as the suite calls it"),
        Column("expectation", "string", "Its type"),
        Column("severity", "string", "critical: readers of <table>_valid do not see the row"),
        Column(
            "row", "string", "The row as JSON, personal values masked; null for a finding about the table"
        ),
        Column("row_hash", "string", "Finds the row in the table again; null for a finding about the table"),
        Column("copies", "long", "How many such rows there are, alike in every column"),
        Column("origin", "string", "Where it came from, as JSON (docs/quality.md)"),
        Column("quarantined_at", "timestamp", "When it was validated"),
        Column("masked_columns", "string", "Columns that are masked in row, as a list in JSON"),
    ),
    ("stream",),
)
TRACED = 20
"""Of so many rows of each expectation the events are looked up."""
_FEW = 1_000_000


@dataclass(frozen=True)
class Facts:
    """What a validation was about.

    Attributes:
        from_version: the first Delta version it looked at.
        version: the last one.
        personal: columns whose values are masked.
    """

    stream: str
    table: str
    table_id: str
    from_version: int
    version: int
    run_id: str
    suite: str
    validated_at: datetime
    personal: Collection[str]

    @property
    def app_id(self) -> str:
        """Names its rows, so that they are written once."""
        return f"quarantine/{self.stream}/{self.table}/{self.run_id}"


@dataclass(frozen=True)
class Failure:
    """An expectation that does not hold.

    Attributes:
        name: as the suite calls it.
        expectation: its type.
        severity: how urgent it is.
        rows: the rows that break it; None when they cannot be identified.
    """

    name: str
    expectation: str
    severity: str
    rows: DataFrame | None


def write_failures(
    uri: str,
    facts: Facts,
    failures: Sequence[Failure],
    table: DataFrame,
    *,
    masker: ColumnMasker,
    origins: Origins,
) -> None:
    """Put what breaks expectations into quarantine, once per run.

    Args:
        uri: the table `quarantine`; made when it is not there.
        facts: what was validated.
        failures: the expectations that do not hold.
        table: the validated table at its last version, read as a Delta table.
        masker: masks values.
        origins: finds where rows came from.
    """
    from deltalake import DeltaTable

    QUARANTINE.create(uri)
    if not failures or DeltaTable(uri).transaction_version(facts.app_id) is not None:
        return
    found = [_of(one, table, masker, facts.personal) for one in failures]
    rows = reduce(_union, [one for one in found if one is not None], None)
    if rows is None:
        _write(uri, facts, _without_rows(table, failures, origins))
        return
    rows = rows.groupBy("name", "row_hash").agg(*_any_of(rows)).persist()
    places = _places(table, rows).persist()
    try:
        named = {row[0] for row in rows.select("name").distinct().collect()}
        whole = _with_origin(rows, places, table.columns, origins)
        if rest := [one for one in failures if one.name not in named]:
            whole = whole.unionByName(_without_rows(table, rest, origins))
        _write(uri, facts, whole)
    finally:
        for frame in (rows, places):
            frame.unpersist()


def whole_rows(table: DataFrame, breaking: DataFrame | None) -> DataFrame | None:
    """Return the rows of the table that a query has named, whatever else it returned.

    A query may name rows by some of their columns only, as one that groups by them does: then it means all
    rows with these values.

    Returns:
        None when it shares no column with the table.
    """
    if breaking is None or set(table.columns) <= set(breaking.columns):
        return None if breaking is None else breaking.select(*map(_quoted, table.columns))
    shared = [name for name in table.columns if name in breaking.columns]
    if not shared:
        return None
    left, right = table.alias("whole"), breaking.select(*map(_quoted, shared)).distinct().alias("some")
    same = " AND ".join(f"whole.{_quoted(name)} <=> some.{_quoted(name)}" for name in shared)
    from pyspark.sql import functions as F

    return left.join(right, F.expr(same), "left_semi")


def _of(
    failure: Failure, table: DataFrame, masker: ColumnMasker, personal: Collection[str]
) -> DataFrame | None:
    from pyspark.sql import functions as F

    rows = whole_rows(table, failure.rows)
    if rows is None:
        return None
    columns = rows.columns
    hashed = rows.select("*", row_hash(columns).alias("row_hash"))
    shown = F.to_json(F.struct(*map(_quoted, columns)), {"ignoreNullFields": "false"})
    return masker.over(hashed, personal).select(
        F.lit(failure.name).alias("name"),
        F.lit(failure.expectation).alias("expectation"),
        F.lit(failure.severity).alias("severity"),
        "row_hash",
        shown.alias("row"),
    )


def _union(first: DataFrame | None, second: DataFrame | None) -> DataFrame | None:
    return second if first is None else first.unionByName(second) if second is not None else first


def _any_of(rows: DataFrame) -> list[Any]:
    from pyspark.sql import functions as F

    same = [F.first(name).alias(name) for name in rows.columns if name not in ("name", "row_hash")]
    return [*same, F.count("*").alias("copies")]


def _places(table: DataFrame, rows: DataFrame) -> DataFrame:
    """The rows as they are in the table, with the file that each lies in."""
    from pyspark.sql import functions as F

    hashed = table.select(
        *map(_quoted, table.columns), row_hash(table.columns).alias("row_hash"), "_metadata.file_path"
    )
    wanted = rows.select("row_hash").distinct()
    if rows.count() <= _FEW:
        # A few rows go to the table; many would not fit, and both are sorted.
        wanted = F.broadcast(wanted)
    return hashed.join(wanted, "row_hash", "left_semi")


def _with_origin(rows: DataFrame, places: DataFrame, columns: Sequence[str], origins: Origins) -> DataFrame:
    """Add the column `origin`: which commits brought the rows, and of some rows the events."""
    from pyspark.sql import functions as F

    spark = rows.sparkSession
    files = [row[0] for row in places.select("file_path").distinct().collect()]
    told = spark.createDataFrame(
        list(origins.of_files(files).items()) or [("", "")], "file_path string, brought string"
    )
    commits = (
        places.join(F.broadcast(told), "file_path")
        .groupBy("row_hash")
        .agg(F.concat_ws(", ", F.array_sort(F.collect_set("brought"))).alias("commits"))
    )
    events = origins.of_rows(_some(rows, places, columns))
    traced = spark.createDataFrame(
        [(key, json.dumps(one)) for key, one in events.items()] or [("", "")],
        "row_hash string, events string",
    )
    whole = rows.join(commits, "row_hash", "left").join(F.broadcast(traced), "row_hash", "left")
    origin = F.format_string(
        '{"commits": [%s], "events": %s}',
        F.coalesce("commits", F.lit("")),
        F.coalesce("events", F.lit("null")),
    )
    return whole.withColumn("origin", origin).drop("commits", "events")


def _some(rows: DataFrame, places: DataFrame, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The first rows of each expectation as they are, each once, for a look at their events."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    place = F.row_number().over(Window.partitionBy("name").orderBy("row_hash"))
    first = rows.withColumn("place", place).where(F.col("place") <= TRACED).select("row_hash").distinct()
    found = places.join(F.broadcast(first), "row_hash", "left_semi").dropDuplicates(["row_hash"])
    return [row.asDict() for row in found.select("row_hash", *map(_quoted, columns)).collect()]


def _without_rows(table: DataFrame, failures: Sequence[Failure], origins: Origins) -> DataFrame:
    rows = [
        (one.name, one.expectation, one.severity, None, None, None, origins.of_table()) for one in failures
    ]
    ddl = (
        "name string, expectation string, severity string, row_hash string, `row` string, copies bigint,"
        " origin string"
    )
    return table.sparkSession.createDataFrame(rows, ddl)


def _write(uri: str, facts: Facts, rows: DataFrame) -> None:
    from pyspark.sql import functions as F

    same: Mapping[str, Any] = {
        "stream": facts.stream,
        "table": facts.table,
        "table_id": facts.table_id,
        "from_version": facts.from_version,
        "table_version": facts.version,
        "run_id": facts.run_id,
        "suite": facts.suite,
        "quarantined_at": facts.validated_at,
        "masked_columns": json.dumps(sorted(facts.personal)),
    }
    known = rows.withColumns({name: F.lit(value) for name, value in same.items()})
    whole = known.select(*(F.col(one.name).cast(one.type).alias(one.name) for one in QUARANTINE.columns))
    # A second writer of the same run changes nothing.
    writer = whole.write.format("delta").mode("append").option("txnAppId", facts.app_id)
    writer.option("txnVersion", 1).save(uri)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
