"""Checkpoint and tables go back together to a savepoint; the stream then reads again what came after it.

In this order, so that a death at any point leaves the old or can be brought to the new:

1. Everything that could refuse is asked.
2. The next generation is built beside the current one. Nothing refers to it yet.
3. The plan is written to the journal, and ``current.json`` says that an operation is under way: from here on
   no driver starts, and a second run finishes what this one has begun.
4. The tables go back one by one; each step is harmless when it is done again.
5. ``current.json`` names the next generation, and no operation: one write.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Any

from stateward.contract.job_steps import READY, Report
from stateward.runtime.api.config import Config
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.generations import Generation, Pending
from stateward.runtime.sink.fence import CheckLease
from stateward.state.operation.errors import StateError
from stateward.state.operation.journal import Journal
from stateward.state.savepoints import clone_checkpoint
from stateward.state.savepoints.manifest import CHECKPOINT, Manifest, TableAt
from stateward.state.savepoints.replay_reach import Kafka, landed_since, out_of_reach, records_since
from stateward.state.savepoints.restore_tables import take_back
from stateward.state.savepoints.savepoint_catalog import SavepointCatalog
from stateward.state.savepoints.table_versions import why_not_back

VERB = "restore"


@dataclass(frozen=True)
class Plan:
    """A restore as it was decided: all that is needed to finish it, whatever becomes of the savepoint.

    Attributes:
        savepoint: To which savepoint.
        generation: Number of the generation that will be current.
        folder: Its folder.
        query_id: Its query.
        tables: As they were.
        records: How many records will be read again.
    """

    savepoint: str
    generation: int
    folder: str
    query_id: str
    tables: Mapping[str, TableAt]
    records: int

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Plan:
        """Read what `dataclasses.asdict` has made of one."""
        tables = {name: TableAt(**table) for name, table in document["tables"].items()}
        return cls(**{**document, "tables": tables})


@dataclass(frozen=True)
class Restored:
    """What came of it; with a dry run, what would.

    Attributes:
        stream: The stream.
        savepoint: To which it went back.
        finished: Id of the operation that an earlier run had begun, and this one has finished; None if this
            one has done it all.
        generation: Number of the generation that is current now.
        checkpoint: Its folder.
        query_id: Its query.
        tables: The version each of the stream's own tables was restored to.
        records: How many records will be read again.
        notes: What a person has to know.
    """

    stream: str
    savepoint: str
    finished: str | None
    generation: int
    checkpoint: str
    query_id: str
    tables: Mapping[str, int | None]
    records: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Restore:
    """One run of it, under the stream's lease.

    Attributes:
        config: The stream; ``checkpoint_uri`` is the root of its generations.
        generation: The current one.
        shelf: The stream's savepoints.
        kafka: What the stream reads.
        raw_uri: The table ``raw_events``.
        operation: Id of this run.
        journal: Of this run.
        clock: The time, aware.
        report: Takes each step; raises when the lease is lost.
        check: Gives the epoch of the lease, and raises when it is lost.
    """

    config: Config
    generation: Generation
    shelf: SavepointCatalog
    kafka: Kafka
    raw_uri: str
    operation: str
    journal: Journal
    clock: Callable[[], datetime]
    report: Report
    check: CheckLease

    def run(self, savepoint: str | None, *, dry_run: bool) -> Restored:
        """Go back to a savepoint, by default the newest good one; or finish what was begun.

        Raises:
            StateError: It cannot be done. Nothing was changed then.
        """
        pending = self.generation.pending
        if pending is not None:
            return self._finish(pending, savepoint, dry_run=dry_run)
        if self.journal.plan is not None:
            earlier = Plan.of(self.journal.plan)
            if (earlier.generation, earlier.folder) == (self.generation.number, self.generation.folder):
                # An earlier try of this run has died after its last act.
                return self._restored(earlier, None)
        self.report("savepoint", "verifying")
        manifest = self.shelf.require_good(savepoint)
        self.report("savepoint", READY)
        self._require_possible(manifest)
        following = self.generation.following()
        plan = Plan(
            savepoint=manifest.savepoint,
            generation=following.number,
            folder=following.folder,
            query_id=str(uuid.uuid4()),
            tables=manifest.tables,
            records=records_since(self.kafka, manifest.next, self.config.topics),
        )
        if not dry_run:
            self._build(manifest, following, plan.query_id)
            self.journal.decide(asdict(plan))
            self.report("tables", "going back")
            began = Pending(self.operation, VERB, self.journal.uri)
            generations.announce(self.generation, began, self.clock())
            self._carry_out(plan, self.journal, self.operation)
        return self._restored(plan, None)

    def _finish(self, pending: Pending, savepoint: str | None, *, dry_run: bool) -> Restored:
        journal = Journal(pending.journal_uri, self.clock)
        if pending.verb != VERB or journal.plan is None:
            self.generation.require_settled(self.config.stream)
            raise AssertionError("unreachable: an operation that is under way was let pass")
        plan = Plan.of(journal.plan)
        if savepoint not in (None, plan.savepoint):
            raise StateError(
                f"stream {self.config.stream}: operation {pending.operation} has begun to go back to "
                f"savepoint {plan.savepoint} and did not end. Finish it first: `stateward state restore "
                f"{self.config.stream} --savepoint {plan.savepoint}`; then go back to {savepoint}."
            )
        if not dry_run:
            self._carry_out(plan, journal, pending.operation)
        return self._restored(plan, pending.operation)

    def _require_possible(self, manifest: Manifest) -> None:
        stream, topics = self.config.stream, self.config.topics
        self.report("Kafka", "looking for the records to be read again")
        if gone := out_of_reach(self.kafka, manifest.next, topics):
            raise StateError(
                f"stream {stream}: cannot go back to savepoint {manifest.savepoint}, for what came after it "
                f"cannot be read again. {'; '.join(map(str, gone))}. Nothing was changed. What there is "
                f"instead: {landed_since(self.raw_uri, topics)}; `stateward backfill {stream}` recomputes "
                "the tables from that."
            )
        self.report("Kafka", READY)
        self.report("tables", "looking for their versions")
        reasons = [why_not_back(name, table) for name, table in manifest.tables.items()]
        if told := [reason for reason in reasons if reason is not None]:
            raise StateError(
                f"stream {stream}: the tables cannot go back to savepoint {manifest.savepoint}. "
                f"{'; '.join(told)}. Nothing was changed. Take a newer savepoint, and let VACUUM keep files "
                "for longer than savepoints are kept."
            )

    def _build(self, manifest: Manifest, following: Generation, query_id: str) -> None:
        self.report("checkpoint", f"building {following.uri}")
        clone_checkpoint.build(
            manifest,
            f"{self.shelf.folder(manifest.savepoint)}/{CHECKPOINT}",
            following.uri,
            query_id=query_id,
        )
        self.report("checkpoint", READY)

    def _carry_out(self, plan: Plan, journal: Journal, operation: str) -> None:
        for name, table in plan.tables.items():
            self.report("tables", f"{name} goes back")
            journal.once(name, partial(take_back, self.config.stream, table, self.check))
        self.report("tables", READY)
        following = Generation(self.generation.root, plan.generation, plan.folder)
        generations.make_current(following, operation, self.clock())

    def _restored(self, plan: Plan, finished: str | None) -> Restored:
        return Restored(
            stream=self.config.stream,
            savepoint=plan.savepoint,
            finished=finished,
            generation=plan.generation,
            checkpoint=Generation(self.generation.root, plan.generation, plan.folder).uri,
            query_id=plan.query_id,
            tables={name: table.version for name, table in plan.tables.items() if not table.is_shared},
            records=plan.records,
            notes=tuple(_notes(self.config)),
        )


def _notes(config: Config) -> list[str]:
    if config.in_processing_time:
        return [
            "The stream runs by processing time: what is read again has the time of the second reading, so "
            "its rows will be others than they were."
        ]
    if config.emission == "eager":
        return ["The stream acts on arrival (emission: eager): read again in other batches, rows may differ."]
    return []
