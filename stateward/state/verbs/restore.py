"""The verb ``restore``: checkpoint and tables go back to a savepoint; the stream reads again what came after.

The order ensures that a crash at any point leaves the old state or can be finished:

1. Everything that could prevent the restore is checked.
2. The next generation is built beside the current one. Nothing refers to it yet.
3. The plan is written to the journal, and ``current.json`` announces the operation. From here on no driver
   starts, and a second run finishes the first.
4. The tables go back one by one; each step is idempotent.
5. ``current.json`` names the next generation, and no operation: one write.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from stateward.contract import storage
from stateward.contract.process_output import READY
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.generations import Generation
from stateward.state.errors import StateError
from stateward.state.files import checkpoint_copy
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.journal import Journal
from stateward.state.operation.verb import Earlier, NextGeneration
from stateward.state.savepoints.manifest import CHECKPOINT, Manifest, TableAt
from stateward.state.savepoints.replay_reach import landed_since, out_of_reach, records_since
from stateward.state.savepoints.tables import take_back, why_not_back


@dataclass(frozen=True)
class Plan:
    """A restore: the savepoint, and the query id of the next generation.

    Delta remembers the batches of the old query, and would take those to come for batches that it has.
    """

    manifest: Manifest
    query_id: str
    records: int


def _with_tables_at(manifest: Manifest, uris: Mapping[str, str]) -> Manifest:
    """Return a savepoint whose tables are where the stream has them now: the installation may have moved."""
    tables = {name: replace(at, uri=uris.get(name, at.uri)) for name, at in manifest.tables.items()}
    return replace(manifest, tables=tables)


class RestoreVerb(NextGeneration[Plan]):
    """Go back to a savepoint, by default the newest good one."""

    name = "restore"
    is_announced = True

    def plan(self) -> Plan:
        """Verify the savepoint, Kafka's records after it, and the versions of the tables.

        Raises:
            StateError: One of them is broken or gone.
        """
        context, stream, topics = self.context, self.context.stream, self.context.request.config.topics
        context.report("savepoint", "verifying")
        manifest = context.catalog.require_good(context.request.arguments["savepoint"])
        context.report("savepoint", READY)
        context.report("Kafka", "looking for the records to be read again")
        if gone := out_of_reach(context.kafka(), manifest.next, topics):
            raise StateError(
                f"stream {stream}: cannot go back to savepoint {manifest.savepoint}, because what came after "
                f"it cannot be read again. {'; '.join(map(str, gone))}. Nothing was changed. What there is "
                f"instead: {landed_since(context.request.raw_uri, topics)}; `stateward backfill {stream}` "
                "recomputes the tables from that."
            )
        context.report("Kafka", READY)
        context.report("tables", "looking for their versions")
        manifest = _with_tables_at(manifest, context.request.config.tables)
        if reasons := [why for name, at in manifest.tables.items() if (why := why_not_back(name, at))]:
            raise StateError(
                f"stream {stream}: the tables cannot go back to savepoint {manifest.savepoint}. "
                f"{'; '.join(reasons)}. Nothing was changed. Take a newer savepoint, and let VACUUM keep "
                "files for longer than savepoints are kept."
            )
        return Plan(manifest, str(uuid.uuid4()), records_since(context.kafka(), manifest.next, topics))

    def preview(self, plan: Plan) -> Answer:
        """Report the state that the stream would go back to."""
        return self._answer(self.decision(plan), None)

    def decision(self, plan: Plan) -> dict[str, Any]:
        """Return all that is needed to finish the restore, even without the savepoint."""
        return {
            "savepoint": plan.manifest.savepoint,
            "generation": self.following.number,
            "folder": self.following.folder,
            "query_id": plan.query_id,
            "tables": {name: asdict(table) for name, table in plan.manifest.tables.items()},
            "records": plan.records,
        }

    def apply(self, plan: Plan) -> Answer:
        """Build a checkpoint from the savepoint: another query, which continues from the same offsets.

        Raises:
            StateError: The copy is not what the manifest says.
            CopyError: A file cannot be read or written.
        """
        manifest, target_uri = plan.manifest, self.following.uri
        self.context.report("checkpoint", f"building {target_uri}")
        generations.pin(target_uri, self.context.clock())
        source = f"{self.context.catalog.folder(manifest.savepoint)}/{CHECKPOINT}"
        copied = {file.path: file.sha256 for file in checkpoint_copy.copy_checkpoint(source, target_uri)}
        for file in manifest.files:
            same = copied.get(file.path, file.sha256) == file.sha256
            if not same and not checkpoint_copy.has_own_path(file.path):
                raise StateError(
                    f"stream {manifest.stream}: {file.path} of savepoint {manifest.savepoint} changed while "
                    "it was copied. Nothing was changed; verify the savepoint."
                )
        query = json.dumps({"id": plan.query_id}, separators=(",", ":"))
        storage.write_text(f"{target_uri}/metadata", query)
        storage.delete(f"{target_uri}/{checkpoint_copy.crc_path('metadata')}")
        checkpoint = Checkpoint(target_uri)
        checkpoint.write_earlier({**checkpoint.earlier(), manifest.query_id: manifest.last_batch})
        self.context.report("checkpoint", READY)
        return self._answer(self.decision(plan), None)

    def before_current(self, decided: Mapping[str, Any], journal: Journal, operation: str) -> None:
        """Take the tables back."""
        for name, table in decided["tables"].items():
            self.context.report("tables", f"{name} goes back")
            then = TableAt(**table)
            journal.once(name, partial(take_back, self.context.stream, then, self.context.check))
        self.context.report("tables", READY)

    def resume(self, earlier: Earlier) -> Answer:
        """Finish an unfinished restore.

        Raises:
            StateError: It goes back to another savepoint.
        """
        stream, wanted, to = self.context.stream, self.context.request.arguments["savepoint"], earlier.plan
        if (pending := earlier.pending) is None:
            return self._answer(to, None)
        if wanted not in (None, to["savepoint"]):
            raise StateError(
                f"stream {stream}: operation {pending.operation} has begun to go back to savepoint "
                f"{to['savepoint']} and did not end. Finish it first: `stateward state restore {stream} "
                f"--savepoint {to['savepoint']}`; then go back to {wanted}."
            )
        if not self.context.request.dry_run:
            self.make_current(to, earlier.journal, pending.operation)
        return self._answer(to, pending.operation)

    def _answer(self, plan: Mapping[str, Any], finished: str | None) -> Answer:
        stream, savepoint, generation = self.context.stream, plan["savepoint"], plan["generation"]
        tables = {name: at["version"] for name, at in plan["tables"].items() if at["batches"] is None}
        uri = Generation(self.context.generation.root, generation, plan["folder"]).uri
        lines = [
            f"{stream} {self.would('be', 'is')} back at savepoint {savepoint}, as generation {generation} in "
            f"{uri}.",
            f"At its next start it reads {plan['records']:,} records again.",
        ]
        if finished is not None:
            lines.append(f"This finishes what operation {finished} had begun.")
        config = self.context.request.config
        notes = []
        if config.in_processing_time:
            notes = [
                "The stream runs by processing time: what is read again has the time of the second reading, "
                "so its rows will be others than they were."
            ]
        elif config.emission == "eager":
            notes = [
                "The stream acts on arrival (emission: eager): read again in other batches, rows may differ."
            ]
        return Answer(
            (*lines, *notes),
            (Listing("Tables", ("table", "restored to version"), list(tables.items())),),
            {
                "stream": stream,
                "savepoint": savepoint,
                "finished": finished,
                "generation": generation,
                "checkpoint": uri,
                "query_id": plan["query_id"],
                "tables": tables,
                "records": plan["records"],
                "notes": notes,
            },
        )
