"""Skips records that Kafka no longer has: builds the next generation with every state unchanged.

Only the offsets from which the next batch reads change. A planned batch that reads lost records can never
run; the copy does not contain it. All other files are copied and verified byte for byte, so Spark is not
needed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from stateward.contract import storage
from stateward.contract.process_output import READY, Report
from stateward.runtime.api.config import Config
from stateward.runtime.checkpoint.batch_plan import is_plan, offset_json, plan_from_json
from stateward.runtime.checkpoint.checkpoint import SKIPPED, Checkpoint, Jump, PlannedBatch
from stateward.runtime.checkpoint.generations import UNFINISHED, Generation
from stateward.runtime.checkpoint.offsets import Offsets
from stateward.runtime.delta.commit_retry import tables_with
from stateward.state.errors import StateError
from stateward.state.files import checkpoint_copy
from stateward.state.files.checkpoint_build import unfinished
from stateward.state.files.checkpoint_integrity import require_whole_logs
from stateward.state.files.state_file_completeness import files_after
from stateward.state.savepoints.replay_reach import Gap, Kafka, out_of_reach

_SHOWN = 5


@dataclass(frozen=True)
class Skip:
    """One skip, under the stream's lease.

    Attributes:
        config: The stream's configuration.
        generation: The current generation; it is only read.
        kafka: The stream's Kafka.
        report: Called with each step; raises when the lease is lost.
    """

    config: Config
    generation: Generation
    kafka: Kafka
    report: Report

    @property
    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(self.generation.uri)

    def gaps(self) -> list[Gap]:
        """Find the partitions whose next records are gone.

        Raises:
            StateError: There is no checkpoint, or a topic has fewer partitions than it had.
            BrokerAwayError: Kafka is not reachable.
        """
        stream = self.config.stream
        if self._checkpoint.query_id() is None:
            raise StateError(
                f"stream {stream}: expected a checkpoint in {self.generation.uri}, found none. It has read "
                "nothing yet: start it."
            )
        if self._checkpoint.last_committed() >= 0:
            require_whole_logs(self.generation.uri)
        self.report("Kafka", "looking for the next records")
        last = self._checkpoint.planned(self._checkpoint.last_committed())
        ids = {} if last is None else last.plan.ids
        gaps = out_of_reach(self.kafka, self._next(), self.config.topics, ids)
        if missing := [gap for gap in gaps if gap.begins is None]:
            raise StateError(
                f"stream {stream}: {'; '.join(map(str, missing[:_SHOWN]))}. Create the topic with as many "
                "partitions as before, and run this again. Nothing was changed."
            )
        self.report("Kafka", READY)
        return gaps

    def unread_batch(self) -> int | None:
        """The batch that is planned and not committed; None if there is none.

        Raises:
            StateError: It has written to a table.
        """
        checkpoint = self._checkpoint
        planned = checkpoint.last_planned()
        if checkpoint.is_clean():
            return None
        if written := tables_with(str(checkpoint.query_id()), planned, self.config.tables):
            raise StateError(
                f"stream {self.config.stream}: expected batch {planned} to have written nothing, found its "
                f"rows in {', '.join(written)}: it failed before its state was committed, and the records it "
                "read are gone. A new batch could write the same rows again. Restore the records (raw_events "
                f"may have them), or run `stateward state restore {self.config.stream}` if Kafka still has "
                "the records after a savepoint. Nothing was changed."
            )
        return planned

    def build(self, target_uri: str, gaps: Sequence[Gap], batch: int | None) -> int:
        """Build the checkpoint that continues after the gaps; files in the target's folder are removed.

        Args:
            target_uri: The folder of the next generation.
            gaps: Result of `gaps`.
            batch: Result of `unread_batch`.

        Returns:
            Number of unchanged files.

        Raises:
            StateError: The copy differs from the expected one.
            CopyError: A file cannot be read or written, or is damaged.
        """
        source, place = self._checkpoint, _start_offsets_path(self._checkpoint.last_committed())
        with unfinished(target_uri, {"source": self.generation.uri}):
            copied = checkpoint_copy.copy_checkpoint(self.generation.uri, target_uri, self.report)
            left_out = self._left_out(target_uri, batch)
            for path in left_out:
                storage.delete(f"{target_uri}/{path}")
            _skip_gaps(target_uri, place, self._next().keys(), gaps)
            target = Checkpoint(target_uri)
            jumps = [Jump(gap.topic, gap.partition, gap.expected, gap.goes_on_at) for gap in gaps]
            target.write_jumps([*source.jumps(), *jumps])
            self.report("prove", f"{len(copied)} files")
            changed = {*left_out, place, checkpoint_copy.crc_path(place), SKIPPED}
            return self._prove(target_uri, [one for one in copied if one.path not in changed], gaps)

    def _next(self) -> Offsets:
        """The offsets of the next records."""
        last = self._checkpoint.last_committed()
        planned = self._checkpoint.planned(last) if last >= 0 else None
        return self._checkpoint.initial_offsets() if planned is None else planned.offsets

    def _left_out(self, target_uri: str, batch: int | None) -> set[str]:
        """Files of the batch that did not run; the next batch has its number."""
        if batch is None:
            return set()
        paths = {f"offsets/{batch}", *files_after(target_uri, self._checkpoint.last_committed())}
        return paths | {checkpoint_copy.crc_path(path) for path in paths}

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
            problems.append(f"the last batch {now}")
        if target.query_id() != source.query_id() or not target.is_clean():
            problems.append(f"query {target.query_id()} with batch {target.last_planned()} planned")
        if problems:
            raise StateError(
                f"stream {self.config.stream}: expected a copy of {self.generation.uri} in which only the "
                f"next offsets differ, found {'; '.join(problems[:_SHOWN])}. The checkpoint is unchanged; "
                "report this."
            )
        return len(unchanged)


def _after(offsets: Offsets, gaps: Sequence[Gap]) -> Offsets:
    """The offsets after the gaps."""
    moved = {topic: dict(parts) for topic, parts in offsets.items()}
    for gap in gaps:
        moved[gap.topic][gap.partition] = gap.goes_on_at
    return moved


def _read_on(was: PlannedBatch, gaps: Sequence[Gap]) -> PlannedBatch:
    offsets = _after(was.offsets, gaps)
    return replace(was, offsets=offsets, plan=replace(was.plan, offsets=offsets, ids={}))


def _start_offsets_path(last_batch: int) -> str:
    """Path in a checkpoint of the file with the start offsets of the batch after ``last_batch``."""
    return f"offsets/{last_batch}" if last_batch >= 0 else "sources/0/0"


def _skip_gaps(checkpoint_uri: str, path: str, topics: Collection[str], gaps: Sequence[Gap]) -> None:
    """Change the offsets from which a copy continues; does nothing if it has no such file.

    Args:
        checkpoint_uri: A copy of a checkpoint.
        path: Result of `_start_offsets_path`.
        topics: Topics that identify a line of offsets; each scan of the query has its own line.
        gaps: The gaps to skip.
    """
    text = storage.read_text(f"{checkpoint_uri}/{path}")
    if text is None:
        return
    lines = [_skipped(line, topics, gaps) for line in text.split("\n")]
    storage.write_text(f"{checkpoint_uri}/{path}", "\n".join(lines))
    storage.delete(f"{checkpoint_uri}/{checkpoint_copy.crc_path(path)}")


def _skipped(line: str, topics: Collection[str], gaps: Sequence[Gap]) -> str:
    try:
        document = json.loads(line)
    except ValueError:
        return line  # the version line
    if not set(topics) & document.keys():
        return line
    plan = plan_from_json(document)
    offsets = _after(plan.offsets, gaps)
    # A recreated topic has another id, which the next plan records.
    after = replace(plan, offsets=offsets, ids={}).to_json() if is_plan(document) else offset_json(offsets)
    return json.dumps(after)
