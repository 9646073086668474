"""Seeds a new stream from a table: computes its initial states, writes a checkpoint, and verifies it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from stateward.contract.process_output import Report
from stateward.runtime.checkpoint.offsets import Offsets
from stateward.runtime.session import start_coordinator
from stateward.state.errors import StateError
from stateward.state.inspection.masker import Masker
from stateward.state.migration.bucket_states import STATES_SCHEMA, Sums
from stateward.state.migration.first_checkpoint import FirstCheckpoint
from stateward.state.migration.initial_state import SeedConverter, SeededRow, missing_columns
from stateward.state.migration.seed_table import redact_spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SHOWN = 5
_SEEDED_DDL = "bucket int, key string, state binary, wake_ms bigint, wrong string, skipped boolean"
_SEEDED_SCHEMA = pa.schema([*STATES_SCHEMA, ("wrong", pa.string()), ("skipped", pa.bool_())])


class SeedRefusedError(StateError):
    """The table cannot be converted to the stream's state; nothing was changed."""


class SeedFailedError(StateError):
    """Spark failed; the stream still has no state."""


@dataclass(frozen=True)
class SeedSurvey:
    """The contents of a table.

    Attributes:
        rows: Number of rows.
        keys: Number of rows that become the state of a key.
        skipped: Number of rows that the stream's function skips.
        examples: The first keys and their states as JSON, masked.
    """

    rows: int
    keys: int
    skipped: int
    examples: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class SeedResult:
    """The result of a seed: the contents of the table, and the checksums by bucket."""

    survey: SeedSurvey
    buckets: Sums


@dataclass(frozen=True)
class Seed:
    """Converts one table to the initial states of a stream.

    Attributes:
        spark: A session.
        stream: The stream's name.
        table: The rows.
        converter: Converts the rows.
        partitions: Number of state partitions to create.
        state_version: Version of the states.
        report: Called with ``check``, ``write`` and ``prove``.
        masker: Masks keys and states in the examples.
    """

    spark: SparkSession
    stream: str
    table: DataFrame
    converter: SeedConverter
    partitions: int
    state_version: int
    report: Report
    masker: Masker

    def survey(self) -> SeedSurvey:
        """Check every row, without writing.

        Raises:
            SeedRefusedError: A column is missing, rows have no state, or several rows have one key.
        """
        self.report("check", "every row of the table")
        self._require_columns()
        with self._spark_errors():
            return self._survey(self._seeded())

    def run(self, target_uri: str, begin: Offsets) -> SeedResult:
        """Build the checkpoint; files in the target's folder are removed.

        Args:
            target_uri: Folder of the checkpoint.
            begin: Start offsets of the stream.

        Raises:
            SeedRefusedError: A column is missing, rows have no state, or several rows have one key.
            SeedFailedError: Spark failed.
            BucketProofError: The written states differ from the computed ones.
        """
        survey = self.survey()
        with self._spark_errors():
            states = self._seeded().where("state IS NOT NULL").select("bucket", "key", "state", "wake_ms")
            first = FirstCheckpoint(
                self.spark,
                self.stream,
                self.partitions,
                self.converter.buckets,
                self.state_version,
                self.report,
            )
            return SeedResult(survey, first.write(states, target_uri, begin))

    def _require_columns(self) -> None:
        columns = self.table.columns
        gone = [name for name in self.converter.columns if name not in columns]
        if self.converter.seed is None:
            gone += missing_columns(self.converter.evaluator.state_type, columns)
        if gone:
            raise SeedRefusedError(
                f"stream {self.stream}: expected columns {', '.join(gone)} in the table, found none of these "
                "names. Name the key's columns with --key, give the table a column for each field of the "
                "state, or declare `seed` in the stream's declaration. Nothing was changed."
            )

    def _seeded(self) -> DataFrame:
        converter = self.converter

        def batches(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in found:
                rows = converter.rows(batch.to_pylist())
                columns = zip(*rows, strict=True) if rows else [[] for _ in SeededRow._fields]
                arrays = [
                    pa.array(column, field.type)
                    for column, field in zip(columns, _SEEDED_SCHEMA, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=_SEEDED_SCHEMA)

        return self.table.mapInArrow(batches, _SEEDED_DDL)

    def _survey(self, seeded: DataFrame) -> SeedSurvey:
        seeded = seeded.cache()
        try:
            if found := wrong_rows(seeded.where("wrong IS NOT NULL"), self.masker, "have no state"):
                raise self._refused(found)
            several = seeded.where("state IS NOT NULL").groupBy("key").count().where("count > 1")
            if first := several.orderBy("key").limit(_SHOWN).collect():
                named = ", ".join(f"{self.masker.key(row['key'])} ({row['count']} rows)" for row in first)
                raise self._refused(f"{several.count():,} keys have several rows: {named}")
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
    def _spark_errors(self) -> Iterator[None]:
        failed = f"stream {self.stream}: the table could not be converted to its state; the stream has none"
        start_coordinator(self.spark)
        with redact_spark_errors(SeedFailedError, failed):
            yield


def wrong_rows(wrong: DataFrame, masker: Masker, are: str) -> str:
    """The number of rows that cannot be converted, and the reasons; empty if there are none.

    Args:
        wrong: These rows: ``key`` and ``wrong``, the reason.
        masker: Masks the keys.
        are: What they are, such as ``have no state``.
    """
    reasons = wrong.groupBy("wrong").agg(F.count("*").alias("rows"), F.min("key").alias("key"))
    shown = [
        f"{row['rows']:,} rows: {row['wrong']}, such as key {masker.key(row['key'])}"
        for row in reasons.orderBy(F.desc("rows"), "wrong").limit(_SHOWN).collect()
    ]
    return f"{wrong.count():,} rows {are} ({'; '.join(shown)})" if shown else ""
