"""The rows that expectations are evaluated on: those that a range of versions added, the table, and more."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from stateward.contract.names import FORGOTTEN
from stateward.contract.privacy.forgotten import Register
from stateward.quality.privacy.forgotten_keys import counted_without, forgotten_records
from stateward.quality.suites.suite import KEYS, ROWS, Expectation, Suite
from stateward.quality.tables.table_log import Commit, brought, read_commits
from stateward.quality.tables.version_range import Pin, Span, ValidationError
from stateward.runtime.api.tables import SHARED_TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession


COMMITS_DDL = (
    "version bigint, timestamp timestamp, operation string, parameters map<string,string>,"
    " metrics map<string,string>, generation string, batch_id bigint, rows_added bigint, files_added int,"
    " files_removed int, changes_schema boolean"
)
_VIEWS = {"table": "table_at_the_end", "before": "table_before", "commits": "commits_of_the_range"}


@dataclass(frozen=True)
class Frames:
    """The data frames of one validation.

    Attributes:
        table: the whole table at the last version.
        batch: the rows that the range added.
        is_range: whether `batch` is less than the whole table. If not, the range is the whole history, or its
            rows cannot be distinguished from older ones.
        row_count: rows of `batch`.
        table_row_count: rows of `table`.
        commits: of the range, in order.
        seconds: from the commit before the range to its last one.
        as_of: the instant of the validation.
        others: the other tables that the suite reads.
        masker: masks rows of the table; None where they are not masked.
        forgotten: the register of forgotten keys.
    """

    spark: SparkSession
    span: Span
    table: DataFrame
    batch: DataFrame
    is_range: bool
    row_count: int
    table_row_count: int
    commits: tuple[Commit, ...]
    seconds: float
    as_of: datetime
    others: Mapping[str, DataFrame]
    masker: Callable[[DataFrame], DataFrame] | None = None
    forgotten: Register | None = None

    def of(self, expectation: Expectation) -> tuple[str, DataFrame]:
        """Return the rows that an expectation is evaluated on, and a name for them."""
        if expectation.scope == ROWS:
            return "rows", self.batch
        if expectation.scope == KEYS and self.is_range:
            column = str(expectation.kwargs["column"])
            if {column} <= {*self.batch.columns} & {*self.table.columns}:
                keys = self.batch.select(column).distinct()
                return f"keys_{column}", self.table.join(keys, [column], "left_semi").select(
                    *self.table.columns
                )
        return ("table", self.table) if self.is_range else ("rows", self.batch)

    def resolve(self, expectation: Expectation) -> dict[str, Any]:
        """Return the expectation's arguments with names of views in its query; `{batch}` stays."""
        query = expectation.query
        if query is None:
            return dict(expectation.kwargs)
        for name in ("table", "before", "commits", FORGOTTEN, *self.others):
            if (place := "{" + name + "}") in query:
                query = query.replace(place, self._view(name))
        instant = self.as_of.strftime("%Y-%m-%d %H:%M:%S.%f")
        query = query.replace("{as_of}", f"TIMESTAMP '{instant} UTC'")
        return {**expectation.kwargs, "unexpected_rows_query": query}

    def _view(self, name: str) -> str:
        if name not in self._made:
            self._made[name] = _VIEWS.get(name, f"{name}_then")
            self._frame(name).createOrReplaceTempView(self._made[name])
        return self._made[name]

    @cached_property
    def _made(self) -> dict[str, str]:
        return {}

    def _frame(self, name: str) -> DataFrame:
        if name == "table":
            return self.table
        if name == "commits":
            return self.spark.createDataFrame([_commit_row(commit) for commit in self.commits], COMMITS_DDL)
        if name == FORGOTTEN:
            return forgotten_records(self.spark, self.forgotten)
        if name == "before":
            # The version before a key was forgotten has lost files.
            if self.span.is_whole or any(commit.forgets for commit in self.commits):
                return self.table.limit(0)
            before = read_version(self.spark, Pin(self.span.uri, self.span.table_id, self.span.first - 1))
            return self.masker(before) if self.masker else before
        return self.others[name]


def open_frames(
    spark: SparkSession,
    stream: str,
    suite: Suite,
    span: Span,
    *,
    as_of: datetime,
    others: Mapping[str, Pin],
) -> Frames:
    """Open the tables and rows that a suite is evaluated on.

    Raises:
        ValidationError: files or log entries of a version have been removed.
    """
    from deltalake import DeltaTable

    # The register lies beside the folder of the tables.
    forgotten = Register(f"{span.uri.rstrip('/').rsplit('/', 2)[0]}/{FORGOTTEN}")
    table = _retained(spark, stream, suite.table, Pin(span.uri, span.table_id, span.last))
    table_rows = int(DeltaTable(span.uri, version=span.last).count())
    # With the commit before, whose time is the start of the range; the log may have been cleaned.
    before = max(span.first - 1, 0)
    commits = read_commits(span.uri, suite.table, before, span.last)
    seconds = (commits[-1].at - commits[0].at).total_seconds() if commits else 0.0
    commits = [commit for commit in commits if commit.version >= span.first]
    files = None
    if commits and not span.is_whole and suite.is_appended and commits[0].version == span.first:
        files = brought(commits)
    batch, rows = table, table_rows
    if files is not None:
        batch = _of_files(spark, span.uri, table, [file.path for file in files])
        counts = [file.rows for file in files]
        rows = batch.count() if None in counts else sum(count or 0 for count in counts)
    return Frames(
        spark=spark,
        span=span,
        table=table,
        batch=batch,
        is_range=files is not None,
        row_count=rows,
        table_row_count=table_rows,
        commits=tuple(commits),
        seconds=seconds,
        as_of=as_of,
        others={
            name: counted_without(_of_today(name, _retained(spark, stream, name, pin)), name, forgotten)
            for name, pin in others.items()
        },
        forgotten=forgotten,
    )


def read_version(spark: SparkSession, pin: Pin) -> DataFrame:
    """Return one version of a table."""
    return spark.read.format("delta").option("versionAsOf", pin.version).load(pin.uri)


def _retained(spark: SparkSession, stream: str, table: str, pin: Pin) -> DataFrame:
    from pyspark.errors import AnalysisException

    try:
        return read_version(spark, pin)
    except AnalysisException as error:
        raise ValidationError(
            f"{stream}: version {pin.version} of {table} is no longer retained."
            f" Validate a later one: {str(error).splitlines()[0]}"
        ) from error


def _of_today(name: str, frame: DataFrame) -> DataFrame:
    """Add to a shared table of an earlier release the columns that the next driver will add."""
    from pyspark.sql import functions as F

    wanted = next((table.columns for table in SHARED_TABLES if table.name == name), ())
    return frame.withColumns(
        {column.name: F.lit(None).cast(column.type) for column in wanted if column.name not in frame.columns}
    )


def _of_files(spark: SparkSession, uri: str, table: DataFrame, paths: list[str]) -> DataFrame:
    if not paths:
        return table.limit(0)
    base = uri.rstrip("/")
    reader = spark.read.schema(table.schema).option("basePath", base)
    return reader.parquet(*(f"{base}/{path}" for path in sorted(paths))).select(*table.columns)


def _commit_row(commit: Commit) -> tuple[Any, ...]:
    return (
        commit.version,
        commit.at,
        commit.operation,
        commit.parameters,
        commit.metrics,
        commit.generation,
        commit.batch_id,
        commit.rows_added,
        len(commit.added),
        len(commit.removed),
        commit.new_schema,
    )
