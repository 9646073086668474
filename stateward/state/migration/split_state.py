"""The state of a drained keyed stream divided between it and a new one: each written anew, and both proved.

What stays is a migration of the stream, which leaves the other keys out. What goes is the first state of the
other stream, which goes on where the first was: same offsets, same watermark.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stateward.contract.job_steps import Report
from stateward.runtime.kafka.offsets import Offsets
from stateward.state.files.checkpoint_integrity import examine
from stateward.state.migration import bucket_states
from stateward.state.migration.bucket_states import Sums, Total
from stateward.state.migration.first_checkpoint import FirstStates
from stateward.state.migration.migration import Migrated, Migration
from stateward.state.operation.errors import StateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SplitRefusedError(StateError):
    """The state cannot be divided; nothing was changed."""


class SplitProofError(StateError):
    """The two states together are not the one; it is as it was."""


@dataclass(frozen=True)
class Divided:
    """What came of it.

    Attributes:
        stays: Of the stream itself.
        goes: By bucket what was written and found of the other stream.
        whole: What all keys came to before, and both states come to together.
    """

    stays: Migrated
    goes: Sums
    whole: Total


@dataclass(frozen=True)
class Split:
    """One state that becomes two.

    Attributes:
        stays: The stream, with the keys that it keeps.
        goes: The other stream as a migration from the same checkpoint, with the keys that it takes.
        partitions: How many the other stream's state is to have.
        report: Takes each step.
    """

    stays: Migration
    goes: Migration
    partitions: int
    report: Report

    def survey(self) -> tuple[int, int]:
        """How many keys would stay, and how many would go; nothing is written.

        Raises:
            SplitRefusedError: A stream would have no key.
            MigrationFailedError: A step does not do what it has to.
        """
        self.report("check", "which keys stay and which go")
        keys = self.stays.keys(), self.goes.keys()
        for one, found in zip((self.stays, self.goes), keys, strict=True):
            if not found:
                raise SplitRefusedError(
                    f"stream {self.stays.stream}: expected keys in its state for both streams, found none "
                    f"for {one.stream}: look at the rule in `only`. Nothing was changed."
                )
        return keys

    def run(self, stays_uri: str, goes_uri: str, begin: Offsets) -> Divided:
        """Build both checkpoints; what is in the folders is removed.

        Args:
            stays_uri: Folder of the stream's next generation.
            goes_uri: Folder of the other stream's first checkpoint.
            begin: Where that stream begins to read.

        Raises:
            StateError: It cannot be done, or the proof has failed; the state is as it was.
        """
        self.survey()
        stays = self.stays.run(stays_uri)
        source, goes = self.stays.source_uri, self.goes
        first = FirstStates(
            goes.spark, goes.stream, self.partitions, goes.buckets, goes.how.state_version, self.report
        )
        with goes.readable():
            last = (source, examine(source).batch_id)
            sums = first.write(goes.states(), goes_uri, begin, after=last)
            return Divided(stays, sums, self._prove(stays_uri, goes_uri))

    def _prove(self, stays_uri: str, goes_uri: str) -> Total:
        """Every key of the state, with its value and its alarm, has to be in exactly one of the two."""
        self.report("prove", "both states together")
        one, other = self.stays, self.goes
        everything = replace(one, how=replace(one.how, only=()))
        before = bucket_states.total_of(everything.states())
        after = bucket_states.total_of(one.states().unionByName(other.states()))
        kept = bucket_states.total_of(self._kept(one, stays_uri).unionByName(self._kept(other, goes_uri)))
        # A bucket keeps the earliest of its keys' alarms, which was proved of each; the others are computed.
        if not before == after == replace(kept, alarms=before.alarms) or before.keys != before.distinct:
            raise SplitProofError(
                f"stream {one.stream}: expected each of {before.keys:,} keys in exactly one of {stays_uri} "
                f"and {goes_uri}, as it was, found {kept.keys:,}, of which {kept.distinct:,} are different "
                f"(before: {before}; after: {kept}); the state is as it was: look whether the function in "
                "`only` gives the same each time, or report this"
            )
        return before

    def _kept(self, of: Migration, checkpoint_uri: str) -> DataFrame:
        return bucket_states.kept_states(of.spark, of.stream, checkpoint_uri)
