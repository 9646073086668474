"""A stream goes on after records that Kafka has lost: the next generation, with every state as it was.

Only the place changes from which the next batch reads. A batch that was planned to read what is gone can
never run; in the copy it was never planned. What is in its folders beside the plan's own files is copied as
it is, and proved to be the same byte for byte, so Spark is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stateward.contract.job_steps import READY, Report
from stateward.runtime.api.config import Config
from stateward.runtime.checkpoint.checkpoint import SKIPPED, Checkpoint, Jump, PlannedBatch
from stateward.runtime.checkpoint.generations import UNFINISHED, Generation
from stateward.runtime.kafka.offsets import Offsets
from stateward.runtime.sink.commit_retry import tables_with
from stateward.state.files import checkpoint_copy
from stateward.state.files.checkpoint_integrity import require_whole_logs
from stateward.state.files.plan_offsets import change_offsets, place_of
from stateward.state.files.state_file_completeness import files_after
from stateward.state.operation.checkpoint_build import unfinished
from stateward.state.operation.errors import StateError
from stateward.state.savepoints.replay_reach import Gap, Kafka, out_of_reach

_SHOWN = 5


@dataclass(frozen=True)
class Skip:
    """One run of it, under the stream's lease.

    Attributes:
        config: The stream.
        generation: The current one, which is only read.
        kafka: What the stream reads.
        report: Takes each step; raises when the lease is lost.
    """

    config: Config
    generation: Generation
    kafka: Kafka
    report: Report

    @property
    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(self.generation.uri)

    def gaps(self) -> list[Gap]:
        """Where the stream cannot read on.

        Raises:
            StateError: There is no checkpoint, or a topic has fewer partitions than it had.
            BrokerAwayError: Kafka does not answer.
        """
        stream = self.config.stream
        if self._checkpoint.query_id() is None:
            raise StateError(
                f"stream {stream}: expected a checkpoint in {self.generation.uri}, found none. It has read "
                "nothing yet: start it."
            )
        if self._checkpoint.last_committed() >= 0:
            require_whole_logs(self.generation.uri)
        self.report("Kafka", "looking for the records to be read next")
        last = self._checkpoint.planned(self._checkpoint.last_committed())
        ids = {} if last is None else last.plan.ids
        gaps = out_of_reach(self.kafka, self._next(), self.config.topics, ids)
        if missing := [gap for gap in gaps if gap.begins is None]:
            raise StateError(
                f"stream {stream}: {'; '.join(map(str, missing[:_SHOWN]))}. Make the topic with as many "
                "partitions as it had, and do this again. Nothing was changed."
            )
        self.report("Kafka", READY)
        return gaps

    def unread_batch(self) -> int | None:
        """The batch that was planned and has not run; None if there is none.

        Raises:
            StateError: It has written to a table.
        """
        checkpoint = self._checkpoint
        planned = checkpoint.last_planned()
        if checkpoint.is_clean():
            return None
        if written := tables_with(str(checkpoint.query_id()), planned, self.config.tables):
            raise StateError(
                f"stream {self.config.stream}: expected batch {planned} to have written nothing, found rows "
                f"of it in {', '.join(written)}: it died before its state was kept, and what it read is "
                "gone. Its rows cannot be told from those that would come again. Restore the records "
                f"(raw_events may have them), or go back with `stateward state restore {self.config.stream}` "
                "if Kafka still has what came after a savepoint. Nothing was changed."
            )
        return planned

    def build(self, target_uri: str, gaps: Sequence[Gap], batch: int | None) -> int:
        """Build the checkpoint that goes on after the gaps; what is in the target's folder is removed.

        Args:
            target_uri: The folder of the next generation.
            gaps: Of `gaps`.
            batch: Of `unread_batch`.

        Returns:
            How many files are what they were.

        Raises:
            StateError: The copy is not what it has to be.
            CopyError: A file cannot be read or written, or is damaged.
        """
        source, place = self._checkpoint, place_of(self._checkpoint.last_committed())
        with unfinished(target_uri, {"source": self.generation.uri}):
            copied = checkpoint_copy.copy_checkpoint(self.generation.uri, target_uri, self.report)
            left_out = self._left_out(target_uri, batch)
            for path in left_out:
                checkpoint_copy.remove(f"{target_uri}/{path}")
            change_offsets(target_uri, place, self._next().keys(), lambda offsets: _after(offsets, gaps))
            target = Checkpoint(target_uri)
            jumps = [Jump(gap.topic, gap.partition, gap.expected, gap.goes_on_at) for gap in gaps]
            target.write_jumps([*source.jumps(), *jumps])
            self.report("prove", f"{len(copied)} files")
            changed = {*left_out, place, checkpoint_copy.crc_of(place), SKIPPED}
            return self._prove(target_uri, [one for one in copied if one.path not in changed], gaps)

    def _next(self) -> Offsets:
        """What is to be read next."""
        last = self._checkpoint.last_committed()
        planned = self._checkpoint.planned(last) if last >= 0 else None
        return self._checkpoint.initial_offsets() if planned is None else planned.offsets

    def _left_out(self, target_uri: str, batch: int | None) -> set[str]:
        """Files of a batch that was planned and did not run: another one of that number comes."""
        if batch is None:
            return set()
        paths = {f"offsets/{batch}", *files_after(target_uri, self._checkpoint.last_committed())}
        return paths | {checkpoint_copy.crc_of(path) for path in paths}

    def _prove(
        self, target_uri: str, unchanged: Sequence[checkpoint_copy.CopiedFile], gaps: Sequence[Gap]
    ) -> int:
        last = self._checkpoint.last_committed()
        source, target = self._checkpoint, Checkpoint(target_uri)
        was, now = source.planned(last), target.planned(last)
        found = {
            file.path: file for file in checkpoint_copy.checksums_of(target_uri) if file.path != UNFINISHED
        }
        problems = [f"another {file.path}" for file in unchanged if found.get(file.path) != file]
        if was is not None and now != _read_on(was, gaps):
            problems.append(f"a last batch that is {now}")
        if target.query_id() != source.query_id() or not target.is_clean():
            problems.append(f"query {target.query_id()}, its batch {target.last_planned()} planned")
        if problems:
            raise StateError(
                f"stream {self.config.stream}: expected a copy of {self.generation.uri} that only reads on "
                f"elsewhere, found {'; '.join(problems[:_SHOWN])}. The checkpoint is as it was: report this."
            )
        return len(unchanged)


def _after(offsets: Offsets, gaps: Sequence[Gap]) -> Offsets:
    """The offsets with those of gaps moved to what there is."""
    moved = {topic: dict(parts) for topic, parts in offsets.items()}
    for gap in gaps:
        moved[gap.topic][gap.partition] = gap.goes_on_at
    return moved


def _read_on(was: PlannedBatch, gaps: Sequence[Gap]) -> PlannedBatch:
    offsets = _after(was.offsets, gaps)
    return replace(was, offsets=offsets, plan=replace(was.plan, offsets=offsets, ids={}))
