"""The next generation of a checkpoint: the state of every key but one, and nothing of the past.

A copy would have the key in older versions of the state, and in files that RocksDB has not compacted yet. So
the states are written into an empty checkpoint, as the only version of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stateward.contract import storage
from stateward.contract.process_output import Report
from stateward.runtime.api.key_filter import KeyFilter
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.state.compatibility.descriptor import (
    declared_buckets,
    describe,
    read_descriptor,
    with_declared_buckets,
    write_descriptor,
)
from stateward.state.compatibility.verdict import judge
from stateward.state.errors import StateError
from stateward.state.files.checkpoint_integrity import examine
from stateward.state.forget.native_state import count, rewrite
from stateward.state.forget.subject import Subject
from stateward.state.migration import replace_batch
from stateward.state.migration.first_checkpoint import FirstCheckpoint
from stateward.state.migration.key_migration import KeyMigration
from stateward.state.migration.migration import Migration
from stateward.state.reader.key_evaluator import evaluator_of
from stateward.state.verbs.migrate import migrated_descriptor

if TYPE_CHECKING:
    from stateward.state.operation.context import Context


@dataclass(frozen=True)
class IsKey:
    """Whether a key is the one; a module-level type, so that it can be sent to a worker."""

    key: str

    def __call__(self, key: str) -> bool:
        """Compare."""
        return key == self.key


@dataclass(frozen=True)
class Rebuilt:
    """What was written.

    Attributes:
        before: Keys of a keyed stream, or rows of Spark's operators, that the state had.
        after: Those that it has.
        what: ``keys`` or ``rows``.
    """

    before: int
    after: int
    what: str


class StateWithoutKey:
    """Builds the checkpoint.

    Args:
        context: Whose checkpoint it is.
        subject: The key.
    """

    def __init__(self, context: Context, subject: Subject) -> None:
        self._context = context
        self._subject = subject
        self._source = context.generation.uri

    @property
    def report(self) -> Report:
        """Takes each step."""
        return self._context.report

    def require_current(self) -> None:
        """Make sure that the state is as the code declares it, so that it can be written again.

        Raises:
            StateError: There is none, or it has to be migrated first.
        """
        context = self._context
        found = read_descriptor(self._source)
        if found is None:
            raise StateError(
                f"stream {context.stream}: expected a checkpoint with a committed batch, found none. "
                "Start the "
                "stream, or forget the key for a stream that has run."
            )
        now = describe(context.job, context.request.config)
        verdict = judge(found, now)
        was, version = (one.get("key", {}).get("version", 1) for one in (found, now))
        if was != version or not verdict.allows_start:
            findings = " | ".join(str(one) for one in verdict.findings if one.level == verdict.level)
            raise StateError(
                f"stream {context.stream}: expected a state that the current code may run on, found "
                "one with keys of "
                f"version {was}: {findings or verdict.level}. Migrate it first (`stateward state "
                "migrate`). Nothing "
                "was changed."
            )

    def count(self) -> int:
        """How many keys or rows of the state are the key's, without writing.

        Raises:
            StateError: The state cannot be read.
        """
        if not isinstance(self._context.job, StreamJob):
            return count(self._context.spark(), self._source, self._subject.key).removed
        everything, without = self._migration(), self._migration(self._subject.key)
        return everything.keys() - without.keys()

    def build(self, target_uri: str) -> Rebuilt:
        """Write it, and prove it.

        Raises:
            StateError: The state cannot be read or written, or the proof failed; the source is unchanged.
        """
        descriptor = read_descriptor(self._source)
        if descriptor is None:
            raise StateError(f"{self._source}: expected a committed batch, found none")
        is_keyed = isinstance(self._context.job, StreamJob)
        rebuilt = self._keyed(target_uri) if is_keyed else self._native(target_uri)
        self._continue(target_uri)
        if is_keyed:
            now = describe(self._context.job, self._context.request.config)
            declared = declared_buckets(descriptor, self._context.request.config)
            descriptor = with_declared_buckets(migrated_descriptor(descriptor, now), declared)
        write_descriptor(target_uri, descriptor)
        return rebuilt

    def _keyed(self, target_uri: str) -> Rebuilt:
        context = self._context
        source, drained = Checkpoint(self._source), examine(self._source)
        planned = source.planned(drained.batch_id)
        assert planned is not None  # `examine` found it
        migration = self._migration(self._subject.key)
        first = FirstCheckpoint(
            context.spark(),
            context.stream,
            drained.partitions,
            migration.buckets,
            context.job.state_version,
            context.report,
        )
        before = self._migration().keys()
        with migration.readable():
            after = (self._source, drained.batch_id)
            sums = first.write(migration.states(), target_uri, planned.offsets, after=after)
        return Rebuilt(before, sum(one.keys for one in sums.values()), "keys")

    def _native(self, target_uri: str) -> Rebuilt:
        found = rewrite(self._context.spark(), self._source, target_uri, self._subject.key, self.report)
        return Rebuilt(found.rows, found.rows - found.removed, "rows")

    def _migration(self, without: str | None = None) -> Migration:
        """All states, or those without a key, as the code declares them."""
        context, job = self._context, self._context.job
        only = (KeyFilter("a forgotten key", IsKey(without), rest=True),) if without is not None else ()
        conversion = KeyMigration(
            context.stream,
            evaluator_of(job, context.request.config),
            (),
            job.state_version,
            job.state_steps,
            (*job.only, *only),
        )
        return Migration(
            spark=context.spark(),
            stream=context.stream,
            source_uri=self._source,
            conversion=conversion,
            buckets=context.request.config.state_buckets,
            report=context.report,
        )

    def _continue(self, target_uri: str) -> None:
        """Let the checkpoint go on where the source ends: its offsets, its times, and what it continues."""
        source, target = Checkpoint(self._source), Checkpoint(target_uri)
        last, own = source.last_committed(), target.last_committed()
        text = storage.read_text(f"{self._source}/offsets/{last}")
        assert text is not None  # `examine` found it
        replace_batch.write_sources(target_uri, own, text.split("\n")[2:])
        target.write_initial_offsets(source.initial_offsets())
        query = source.query_id()
        assert query is not None
        target.write_earlier({**source.earlier(), query: last})
        if jumps := source.jumps():
            target.write_jumps(jumps)
        if source.query_id() == target.query_id():
            raise StateError(
                f"{target_uri}: expected another query than {query}, found the same; report this"
            )
        was = source.planned(last)
        now = target.planned(own)
        if was is None or now is None or json.dumps(was.plan.to_json()) != json.dumps(now.plan.to_json()):
            raise StateError(
                f"{target_uri}: expected a batch that ends like batch {last} of {self._source}, found "
                f"{now}. The "
                "stream's state is unchanged; report this"
            )
