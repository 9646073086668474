"""The first checkpoint of a stream, written by a batch that reads nothing, and proved.

It ends where the stream begins to read, so to the stream's first start it is one that has run already.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stateward.contract.job_steps import Report
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.kafka.batch_plan import offset_json
from stateward.runtime.kafka.offsets import Offsets
from stateward.state.files.checkpoint_copy import remove
from stateward.state.migration import bucket_states, replace_batch
from stateward.state.migration.bucket_states import Sums
from stateward.state.migration.bucket_writer import stage, write_buckets
from stateward.state.operation.checkpoint_build import unfinished

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class FirstStates:
    """How the first states of a stream are kept.

    Attributes:
        spark: A session.
        stream: The stream's name.
        partitions: How many the state is to have.
        buckets: How many the stream has.
        state_version: Of the states.
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
        """Make the checkpoint; what is in the target's folder is removed.

        Args:
            states: What is to be kept (`bucket_states.STATES_DDL`), which is computed twice: so a function
                that does not give the same each time is found too.
            target_uri: Its folder.
            begin: Where the stream begins to read.
            after: A checkpoint and its last batch, whose watermark and time the stream goes on with; None:
                it has no watermark yet.

        Returns:
            What each bucket comes to.

        Raises:
            BucketProofError: What was written is not what was computed.
        """
        with unfinished(target_uri, {"stream": self.stream}):
            self.report("write", f"{self.buckets} buckets of {self.stream}")
            staged = stage(bucket_states.parts(states), target_uri)
            self._run(staged, target_uri, begin)
            if after is not None:
                replace_batch.go_on_from(*after, target_uri, 0)
            remove(staged)
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
        with self._partitioned():
            write_buckets(
                self.spark,
                staged,
                target_uri,
                begin=offsets,
                state_version=self.state_version,
                name=f"first states of {self.stream}",
            )
        replace_batch.put_offsets(target_uri, 0, offsets)

    @contextmanager
    def _partitioned(self) -> Iterator[None]:
        before = self.spark.conf.get(_PARTITIONS)
        assert before is not None  # Spark has a default
        self.spark.conf.set(_PARTITIONS, str(self.partitions))
        try:
            yield
        finally:
            self.spark.conf.set(_PARTITIONS, before)
