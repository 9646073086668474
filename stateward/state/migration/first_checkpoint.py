"""Writes and verifies the first checkpoint of a stream, with a batch that reads no records.

The batch ends at the offsets where the stream starts, so the stream's first start continues after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stateward.contract import storage
from stateward.contract.process_output import Report
from stateward.runtime.checkpoint.batch_plan import offset_json
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.offsets import Offsets
from stateward.state.files.checkpoint_build import unfinished
from stateward.state.migration import bucket_states, replace_batch
from stateward.state.migration.bucket_states import Sums
from stateward.state.migration.bucket_writer import stage, write_buckets
from stateward.state.reader.stores import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class FirstCheckpoint:
    """Writes the first checkpoint of a stream.

    Attributes:
        spark: A session.
        stream: The stream's name.
        partitions: Number of state partitions to create.
        buckets: Number of the stream's buckets.
        state_version: Version of the states.
        report: Called with ``write`` and ``prove``.
    """

    spark: SparkSession
    stream: str
    partitions: int
    buckets: int
    state_version: int
    report: Report

    def write(
        self, states: DataFrame, target_uri: str, begin: Offsets, *, after: tuple[str, int] | None = None
    ) -> Sums:
        """Write the checkpoint; files in the target's folder are removed.

        Args:
            states: The states (`bucket_states.STATES_DDL`); computed twice, which detects a nondeterministic
                function.
            target_uri: Folder of the checkpoint.
            begin: Start offsets of the stream.
            after: A checkpoint and its last batch, whose watermark and time the stream continues; None for
                no watermark.

        Returns:
            The checksums by bucket.

        Raises:
            BucketProofError: The written states differ from the computed ones.
        """
        with unfinished(target_uri, {"stream": self.stream}):
            self.report("write", f"{self.buckets} buckets of {self.stream}")
            staged = stage(bucket_states.to_chunks(states), target_uri)
            self._run(staged, target_uri, begin)
            if after is not None:
                replace_batch.continue_from(*after, target_uri, 0)
            storage.delete(staged)
            self.report("prove", f"every bucket of {self.stream}")
            return bucket_states.prove(
                self.spark,
                self.stream,
                target_uri,
                states,
                buckets=self.buckets,
                state_version=self.state_version,
            )

    def _run(self, staged: str, target_uri: str, begin: Offsets) -> None:
        Checkpoint(target_uri).write_initial_offsets(begin)
        offsets = offset_json(begin)
        with settings(self.spark, {_PARTITIONS: str(self.partitions)}):
            write_buckets(
                self.spark,
                staged,
                target_uri,
                begin=offsets,
                state_version=self.state_version,
                name=f"first states of {self.stream}",
            )
        replace_batch.write_offsets(target_uri, 0, offsets)
