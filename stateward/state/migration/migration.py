"""Migrates the state of a drained keyed stream to a new key rule: transforms, writes and verifies it.

A `StateStep` cannot do this while a bucket is read: the key determines the bucket, so a changed key moves to
another one. A copy of the checkpoint gets one additional batch, which rewrites every bucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stateward.contract import storage
from stateward.contract.process_output import Report
from stateward.runtime.checkpoint.batch_plan import offset_json
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.ingest.packed_format import bucket_of
from stateward.state.errors import StateError
from stateward.state.files.checkpoint_build import Step, Steps, unfinished
from stateward.state.files.checkpoint_copy import copy_checkpoint
from stateward.state.files.checkpoint_integrity import examine
from stateward.state.migration import bucket_states, replace_batch
from stateward.state.migration.bucket_states import STATES_DDL, STATES_SCHEMA, Sums
from stateward.state.migration.bucket_writer import STAGED_DDL, stage, write_buckets
from stateward.state.migration.key_migration import KeyMigration
from stateward.state.migration.migration_survey import Survey, survey_of
from stateward.state.reader.retained_batches import Retained, retained
from stateward.state.reader.state_reader import keyed_rows, log_entries, per_bucket, versions
from stateward.state.reader.stores import Store, checkpoint_format, spark_errors_as

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOVED_DDL = "bucket int, old string, key string, state binary"
_MOVED_SCHEMA = pa.schema(
    [("bucket", pa.int32()), ("old", pa.string()), ("key", pa.string()), ("state", pa.binary())]
)


class MigrationFailedError(StateError):
    """A step or Spark failed; the source is unchanged."""


@dataclass(frozen=True)
class MigrationResult:
    """The result of a migration.

    Attributes:
        survey: The changes.
        keys_after: Number of keys after it.
        buckets: The checksums by bucket.
        batch: The last batch, which replaces the one before it.
        steps: The steps, in order.
    """

    survey: Survey
    keys_after: int
    buckets: Sums
    batch: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Migration:
    """One migration.

    Attributes:
        spark: A session; no query may run on the source.
        stream: The stream's name.
        source_uri: A drained checkpoint; it is only read.
        conversion: The steps of keys and states.
        buckets: Number of buckets after it.
        report: Called with ``check``, ``transform``, ``copy``, ``write`` and ``prove``.
    """

    spark: SparkSession
    stream: str
    source_uri: str
    conversion: KeyMigration
    buckets: int
    report: Report

    def survey(self) -> Survey:
        """Count the changes, without writing.

        Raises:
            MigrationRefusedError: Keys meet, and no step merges them.
            MigrationFailedError: A step fails.
        """
        self.report("check", self.source_uri)
        with self.readable():
            found, store = self._found()
            before = keyed_rows(self.spark, found, store).selectExpr("key AS old", "state AS was")
            merges = any(step.merge is not None for step in self.conversion.key_steps)
            return survey_of(self.stream, self._moved(), before, merges=merges)

    def run(self, target_uri: str) -> MigrationResult:
        """Build the migrated checkpoint; files in the target's folder are removed.

        Raises:
            MigrationRefusedError: Keys meet, and no step merges them.
            MigrationFailedError: A step or Spark fails.
            BucketProofError: The written states differ from the computed ones.
            UnsoundCheckpointError: The source is not drained, or incomplete.
        """
        steps = Steps(target_uri)
        drained = examine(self.source_uri)
        with self.readable():
            with steps.timed("survey"):
                survey = self.survey()
            with unfinished(target_uri, {"source": self.source_uri}):
                sums = self._build(target_uri, drained.batch_id, survey, steps)
        keys = sum(one.keys for one in sums.values())
        return MigrationResult(survey, keys, sums, drained.batch_id + 1, steps.done)

    def _build(self, target_uri: str, batch_id: int, survey: Survey, steps: Steps) -> Sums:
        self.report("transform", f"{survey.keys} keys")
        with steps.timed("transform"):
            settled = self.states()
            staged = stage(self._all_buckets(bucket_states.to_chunks(settled)), target_uri)
        with steps.timed("copy"):
            copy_checkpoint(self.source_uri, target_uri, self.report)
        self.report("write", f"{self.buckets} buckets")
        with steps.timed("write"):
            self._write(staged, target_uri, batch_id)
        storage.delete(staged)
        self.report("prove", "every bucket")
        with steps.timed("prove"):
            self._prove_logs(target_uri, batch_id)
            return bucket_states.prove(
                self.spark,
                self.stream,
                target_uri,
                settled,
                buckets=self.buckets,
                state_version=self.conversion.state_version,
            )

    def keys(self) -> int:
        """The number of keys of the stream, before keys that meet are merged.

        Raises:
            MigrationFailedError: A step fails.
        """
        with self.readable():
            return self._moved().count()

    def states(self) -> DataFrame:
        """The migrated states: `bucket_states.STATES_DDL`; use them while the state is `readable`."""
        return self._settled(self._moved())

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Let the session read the source; an error of Spark's becomes a `MigrationFailedError`."""
        failed = (
            f"stream {self.stream}: the state in {self.source_uri} could not be migrated, and is unchanged"
        )
        with spark_errors_as(MigrationFailedError, failed), checkpoint_format(self.spark, self.source_uri):
            yield

    def _found(self) -> tuple[Retained, Store]:
        found = retained(self.source_uri, self.stream)
        return found, bucket_states.keyed_store(self.spark, found)

    def _moved(self) -> DataFrame:
        """The converted keys with their upgraded states: `_MOVED_DDL`."""
        found, store = self._found()
        by_bucket = versions(self.spark, found, store)
        conversion, buckets = self.conversion, self.buckets

        def rows(partition: int, bucket: int, states: dict[str, tuple[int, bytes]]) -> list[dict[str, Any]]:
            migrator, made = conversion.begin(), []
            for old, (_, text) in states.items():
                key = migrator.key(old)
                if not migrator.takes(key):
                    continue
                state = migrator.state(by_bucket[bucket], key, text)
                made.append({"bucket": bucket_of(key, buckets), "old": old, "key": key, "state": state})
            return made

        return per_bucket(log_entries(self.spark, found, store), _MOVED_DDL, rows, _MOVED_SCHEMA)

    def _settled(self, moved: DataFrame) -> DataFrame:
        """The new keys, each with one state: `STATES_DDL`."""
        conversion = self.conversion

        def of_bucket(found: pa.Table) -> pa.Table:
            migrator = conversion.begin()
            ordered = found.sort_by([("key", "ascending"), ("old", "ascending")])
            texts: dict[str, list[bytes]] = {}
            for key, text in zip(
                ordered.column("key").to_pylist(), ordered.column("state").to_pylist(), strict=True
            ):
                texts.setdefault(key, []).append(text)
            bucket, rows = ordered.column("bucket")[0].as_py(), []
            for key, several in texts.items():
                state = several[0] if len(several) == 1 else migrator.merged(key, several)
                wake_ms = migrator.wake_ms(key, state)
                if wake_ms is not None:  # else the key is removed
                    rows.append({"bucket": bucket, "key": key, "state": state, "wake_ms": wake_ms})
            return pa.Table.from_pylist(rows, schema=STATES_SCHEMA)

        return moved.groupBy("bucket").applyInArrow(of_bucket, STATES_DDL)

    def _all_buckets(self, found: DataFrame) -> DataFrame:
        """Add a part without entries for each old bucket, which empties it."""
        buckets = versions(self.spark, *self._found())
        olds = self.spark.createDataFrame([(bucket, None, 0, None) for bucket in buckets], STAGED_DDL)
        return found.unionByName(olds)

    def _write(self, staged: str, target_uri: str, batch_id: int) -> None:
        planned = Checkpoint(self.source_uri).planned(batch_id)
        assert planned is not None  # `examine` found it
        replace_batch.forget_watermark(target_uri, batch_id)
        write_buckets(
            self.spark,
            staged,
            target_uri,
            begin=offset_json(planned.offsets),
            state_version=self.conversion.state_version,
            name=f"migrate {self.stream}",
        )
        replace_batch.replace_last_batch(self.source_uri, target_uri, batch_id)

    def _prove_logs(self, target_uri: str, batch_id: int) -> None:
        """Verify that the new last batch ends where the old one did."""
        source, target = Checkpoint(self.source_uri), Checkpoint(target_uri)
        was, now = source.planned(batch_id), target.planned(batch_id + 1)
        assert was is not None and now is not None
        if (
            replace(was, batch_id=now.batch_id) != now
            or source.query_id() != target.query_id()
            or source.state_partitions() != target.state_partitions()
            or not target.is_clean()
        ):
            raise bucket_states.BucketProofError(
                f"{target_uri}: expected a batch that ends like the last one of {self.source_uri}, found "
                f"{now}. The stream's state is unchanged; report this"
            )
