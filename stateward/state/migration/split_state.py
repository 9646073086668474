"""Splits the state of a drained keyed stream between it and a new one, and verifies both.

The keys that stay are a migration of the stream without the other keys. The keys that go are the initial
state of the other stream, which continues at the same offsets and watermark.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stateward.contract.process_output import Report
from stateward.runtime.checkpoint.offsets import Offsets
from stateward.state.errors import StateError
from stateward.state.files.checkpoint_integrity import examine
from stateward.state.migration import bucket_states
from stateward.state.migration.bucket_states import Sums, Total
from stateward.state.migration.first_checkpoint import FirstCheckpoint
from stateward.state.migration.migration import Migration, MigrationResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SplitRefusedError(StateError):
    """The state cannot be split; nothing was changed."""


class SplitProofError(StateError):
    """The two states together differ from the original, which is unchanged."""


@dataclass(frozen=True)
class SplitResult:
    """The result of a split.

    Attributes:
        stays: Result of the stream's migration.
        goes: The checksums of the other stream, by bucket.
        whole: The checksum of all keys before, and of both states together after.
    """

    stays: MigrationResult
    goes: Sums
    whole: Total


@dataclass(frozen=True)
class Split:
    """One split.

    Attributes:
        stays: The stream, with the keys that it keeps.
        goes: The other stream as a migration from the same checkpoint, with the keys that it takes.
        partitions: Number of the other stream's state partitions.
        report: Called with each step.
    """

    stays: Migration
    goes: Migration
    partitions: int
    report: Report

    def survey(self) -> tuple[int, int]:
        """Count the keys that would stay and that would go, without writing.

        Raises:
            SplitRefusedError: A stream would have no key.
            MigrationFailedError: A step fails.
        """
        self.report("check", "which keys stay and which go")
        keys = self.stays.keys(), self.goes.keys()
        for one, found in zip((self.stays, self.goes), keys, strict=True):
            if not found:
                raise SplitRefusedError(
                    f"stream {self.stays.stream}: expected keys for both streams in its state, found none "
                    f"for {one.stream}: check the rule in `only`. Nothing was changed."
                )
        return keys

    def run(self, stays_uri: str, goes_uri: str, begin: Offsets) -> SplitResult:
        """Build both checkpoints; files in their folders are removed.

        Args:
            stays_uri: Folder of the stream's next generation.
            goes_uri: Folder of the other stream's first checkpoint.
            begin: Start offsets of that stream.

        Raises:
            StateError: The split is impossible, or the proof failed; the state is unchanged.
        """
        self.survey()
        stays = self.stays.run(stays_uri)
        source, goes = self.stays.source_uri, self.goes
        first = FirstCheckpoint(
            goes.spark, goes.stream, self.partitions, goes.buckets, goes.conversion.state_version, self.report
        )
        with goes.readable():
            last = (source, examine(source).batch_id)
            sums = first.write(goes.states(), goes_uri, begin, after=last)
            return SplitResult(stays, sums, self._prove(stays_uri, goes_uri))

    def _prove(self, stays_uri: str, goes_uri: str) -> Total:
        """Verify that each key, with its state and its timer, is in exactly one of the two."""
        self.report("prove", "both states together")
        one, other = self.stays, self.goes
        everything = replace(one, conversion=replace(one.conversion, only=()))
        before = bucket_states.total_of(everything.states())
        after = bucket_states.total_of(one.states().unionByName(other.states()))
        kept = bucket_states.total_of(self._kept(one, stays_uri).unionByName(self._kept(other, goes_uri)))
        # A bucket stores only the earliest timer of its keys, which is verified; the others are computed.
        if not before == after == replace(kept, alarms=before.alarms) or before.keys != before.distinct:
            raise SplitProofError(
                f"stream {one.stream}: expected each of {before.keys:,} keys in exactly one of {stays_uri} "
                f"and {goes_uri}, unchanged, found {kept.keys:,}, of which {kept.distinct:,} are distinct "
                f"(before: {before}; after: {kept}). The state is unchanged. Check that the function in "
                "`only` is deterministic; if it is, report this"
            )
        return before

    def _kept(self, of: Migration, checkpoint_uri: str) -> DataFrame:
        return bucket_states.stored_states(of.spark, of.stream, checkpoint_uri)
