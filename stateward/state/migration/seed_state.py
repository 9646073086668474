"""The first states of a new stream, from a table: computed, written into a checkpoint, and proved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from stateward.contract.job_steps import Report
from stateward.runtime.driver.session import start_coordinator
from stateward.runtime.kafka.offsets import Offsets
from stateward.state.inspection.masker import Masker
from stateward.state.migration.bucket_states import STATES_SCHEMA, Sums
from stateward.state.migration.first_checkpoint import FirstStates
from stateward.state.migration.initial_state import Seeded, Seeding, missing_columns
from stateward.state.migration.seed_table import without_values
from stateward.state.operation.errors import StateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SHOWN = 5
_SEEDED_DDL = "bucket int, key string, state binary, wake_ms bigint, wrong string, skipped boolean"
_SEEDED_SCHEMA = pa.schema([*STATES_SCHEMA, ("wrong", pa.string()), ("skipped", pa.bool_())])


class SeedRefusedError(StateError):
    """The table cannot become the stream's state; nothing was changed."""


class SeedFailedError(StateError):
    """Spark gave up; the stream has no state, as before."""


@dataclass(frozen=True)
class SeedSurvey:
    """What a table holds.

    Attributes:
        rows: How many rows.
        keys: How many of them become the state of a key.
        skipped: How many have none, by the stream's function.
        examples: The first keys, and what is kept for them as JSON, as they are shown.
    """

    rows: int
    keys: int
    skipped: int
    examples: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Sown:
    """What came of it: what the table held, and by bucket what was written and found."""

    survey: SeedSurvey
    buckets: Sums


@dataclass(frozen=True)
class Seed:
    """One table as the first states of a stream.

    Attributes:
        spark: A session.
        stream: The stream's name.
        table: The rows.
        how: What becomes of them.
        partitions: How many its state is to have.
        state_version: Of the stream.
        report: Called with ``check``, ``write`` and ``prove``.
        masker: Masks what is shown of keys and states.
    """

    spark: SparkSession
    stream: str
    table: DataFrame
    how: Seeding
    partitions: int
    state_version: int
    report: Report
    masker: Masker

    def survey(self) -> SeedSurvey:
        """Look at every row; nothing is written.

        Raises:
            SeedRefusedError: A column is missing, rows have no state, or several rows have one key.
        """
        self.report("check", "every row of the table")
        self._require_columns()
        with self._in_words():
            return self._survey(self._seeded())

    def run(self, target_uri: str, begin: Offsets) -> Sown:
        """Build the checkpoint; what is in the target's folder is removed.

        Args:
            target_uri: Its folder.
            begin: Where the stream begins to read.

        Raises:
            SeedRefusedError: A column is missing, rows have no state, or several rows have one key.
            SeedFailedError: Spark gave up.
            BucketProofError: What was written is not what was computed.
        """
        survey = self.survey()
        with self._in_words():
            states = self._seeded().where("state IS NOT NULL").select("bucket", "key", "state", "wake_ms")
            first = FirstStates(
                self.spark,
                self.stream,
                self.partitions,
                self.how.buckets,
                self.state_version,
                self.report,
            )
            return Sown(survey, first.write(states, target_uri, begin))

    def _require_columns(self) -> None:
        columns = self.table.columns
        gone = [name for name in self.how.columns if name not in columns]
        if self.how.seed is None:
            gone += missing_columns(self.how.rule.state_type, columns)
        if gone:
            raise SeedRefusedError(
                f"stream {self.stream}: expected columns {', '.join(gone)} in the table, found none of that "
                "name. Name the key's columns with --key, give the table a column for each field of the "
                "state, or declare `seed` in the stream's declaration. Nothing was changed."
            )

    def _seeded(self) -> DataFrame:
        how = self.how

        def batches(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in found:
                rows = how.rows(batch.to_pylist())
                columns = zip(*rows, strict=True) if rows else [[] for _ in Seeded._fields]
                arrays = [
                    pa.array(column, field.type)
                    for column, field in zip(columns, _SEEDED_SCHEMA, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=_SEEDED_SCHEMA)

        return self.table.mapInArrow(batches, _SEEDED_DDL)

    def _survey(self, seeded: DataFrame) -> SeedSurvey:
        seeded = seeded.cache()
        try:
            if found := _wrong(seeded.where("wrong IS NOT NULL"), self.masker):
                raise self._refused(found)
            several = seeded.where("state IS NOT NULL").groupBy("key").count().where("count > 1")
            if first := several.orderBy("key").limit(_SHOWN).collect():
                told = ", ".join(f"{self.masker.key(row['key'])} ({row['count']} rows)" for row in first)
                raise self._refused(f"{several.count():,} keys have several rows: {told}")
            row = seeded.agg(
                F.count("*").alias("rows"),
                F.count_if(F.col("state").isNotNull()).alias("keys"),
                F.count_if("skipped").alias("skipped"),
            ).collect()[0]
            if not row["keys"]:
                raise self._refused(f"no state in {row['rows']:,} rows")
            shown = seeded.where("state IS NOT NULL").orderBy("key").limit(_SHOWN).collect()
            examples = tuple(
                (self.masker.key(one["key"]), self.masker.text(bytes(one["state"]).decode(), one["key"]))
                for one in shown
            )
            return SeedSurvey(row["rows"], row["keys"], row["skipped"], examples)
        finally:
            seeded.unpersist()

    def _refused(self, found: str) -> SeedRefusedError:
        return SeedRefusedError(
            f"stream {self.stream}: expected a table with one row for each key, and a state of the stream in "
            f"it, found that {found}. Correct the table. Nothing was changed."
        )

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        failed = f"stream {self.stream}: the table could not become its state, and it has none"
        start_coordinator(self.spark)
        with without_values(SeedFailedError, failed):
            yield


def _wrong(wrong: DataFrame, masker: Masker) -> str:
    """How many rows have no state, and for which reasons; empty if all have one."""
    reasons = wrong.groupBy("wrong").agg(F.count("*").alias("rows"), F.min("key").alias("key"))
    shown = [
        f"{row['rows']:,} rows: {row['wrong']}, such as key {masker.key(row['key'])}"
        for row in reasons.orderBy(F.desc("rows"), "wrong").limit(_SHOWN).collect()
    ]
    return f"{wrong.count():,} rows have no state ({'; '.join(shown)})" if shown else ""
