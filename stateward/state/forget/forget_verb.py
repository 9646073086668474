"""The verb ``forget``: one key, such as a person, leaves all that a stream has written.

The order ensures that a crash at any point can be finished, and that nothing brings the key back:

1. The register has the key (as an HMAC) and its records. From here on whatever reads them leaves them out.
2. The next generation is built beside the current one, without the key and without a past.
3. ``current.json`` announces the operation: no driver starts until it ends, and a second run finishes it.
4. Tables lose the key's rows, old files and statistics; savepoints of before go.
5. ``current.json`` names the next generation. Earlier ones go, local copies, and what names the key.
6. The request's reference is erased.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from stateward.contract import storage
from stateward.contract.privacy.forgotten import ForgottenKey, Register, digest_of
from stateward.contract.process_output import READY
from stateward.project.project import Project
from stateward.quality.privacy.masking import mask
from stateward.runtime.checkpoint import generations
from stateward.state.errors import StateError
from stateward.state.forget.places import Places
from stateward.state.forget.state import Rebuilt, StateWithoutKey
from stateward.state.forget.subject import Subject
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.drained import require_drained
from stateward.state.operation.journal import Journal
from stateward.state.operation.verb import Earlier, NextGeneration


@dataclass(frozen=True)
class Plan:
    """What there is of a key.

    Attributes:
        subject: The key.
        entry: What the register will have of it.
        held: What Kafka holds: topic, partition, first and last offset, records, retention.
        rows: Rows of tables, by name.
        savepoints: Ids of the savepoints that go.
    """

    subject: Subject
    entry: ForgottenKey
    held: Sequence[tuple[Any, ...]]
    rows: Mapping[str, int]
    savepoints: Sequence[str]


class ForgetVerb(NextGeneration[Plan]):
    """Remove a key from everything that the stream has written."""

    name = "forget"
    is_announced = True
    rebuilt: Rebuilt | None = None

    def plan(self) -> Plan:
        """Look for the key everywhere.

        Raises:
            StateError: The stream has no key or no checkpoint, or its state is not as the code declares it.
            BrokerAwayError: Kafka does not answer.
        """
        context = self.context
        require_drained(context.stream, context.generation.uri, runs=context.runs)
        subject = self.subject
        StateWithoutKey(context, subject).require_current()
        places = self.places
        context.report("Kafka", "looking for records of the key")
        held = places.held()
        context.report("Kafka", READY)
        context.report("tables", "looking for rows of the key")
        found = places.rows()
        context.report("tables", READY)
        entry = ForgottenKey(
            operation=context.request.operation,
            stream=context.stream,
            field=subject.field,
            digest=self.digest,
            at=context.clock(),
            records=places.records(held, found),
            rows=places.counted(found),
        )
        shown = [
            (one.topic, partition, spans[0][0], spans[-1][1], sum(b - a + 1 for a, b in spans), one.retention)
            for one in held
            for partition, spans in one.offsets.items()
        ]
        return Plan(
            subject,
            entry,
            shown,
            {name: len(rows) for name, rows in found.items()},
            tuple(context.catalog.ids()),
        )

    def preview(self, plan: Plan) -> Answer:
        """Report what would be removed."""
        removed = StateWithoutKey(self.context, plan.subject).count()
        self.context.request.erase_secrets()
        decided = {**self.decision(plan), "state": asdict(Rebuilt(removed, 0, self._what))}
        return self._answer(decided)

    def decision(self, plan: Plan) -> Mapping[str, Any]:
        """Return all that is needed to finish the operation; the key itself is by reference."""
        return {
            "folder": self.following.folder,
            "digest": plan.entry.digest,
            "key": self.context.request.arguments["key"],
            "folder_uri": self.context.request.folder_uri,
            "held": [list(row) for row in plan.held],
            "rows": dict(plan.rows),
            "savepoints": list(plan.savepoints),
            "entry": plan.entry.operation,
        }

    def carry_out(self, plan: Plan) -> Answer:
        """Do all steps; the answer is given in the end."""
        super().carry_out(plan)
        return self._finish(self.decision(plan))

    def apply(self, plan: Plan) -> Answer:
        """Write the register, and build the next generation without the key."""
        context = self.context
        register = Register(context.request.config.forgotten_uri)
        if not register.has(plan.entry.operation):
            register.add(plan.entry)
        self.rebuilt = StateWithoutKey(context, plan.subject).build(self.following.uri)
        return Answer(())

    def before_current(self, decided: Mapping[str, Any], journal: Journal, operation: str) -> None:
        """Remove rows and savepoints, while no driver may start."""
        context = self.context
        context.take_over()
        places = self.places
        context.report("others", "waiting for batches that were planned before")
        places.wait_for_others()
        entry = Register(context.request.config.forgotten_uri).of(decided["entry"])
        journal.once("tables", lambda: places.remove_rows(entry.records))
        for savepoint in decided["savepoints"]:
            context.report("savepoints", f"removing {savepoint}")
            storage.delete(context.catalog.folder(savepoint))
        context.report("savepoints", READY)

    def resume(self, earlier: Earlier) -> Answer | None:
        """Finish an earlier try.

        Raises:
            StateError: Another key is to be forgotten first.
        """
        decided, pending, context = earlier.plan, earlier.pending, self.context
        if "digest" not in decided:
            return None
        if pending is None and context.request.secret("key") is None:
            # Erasing it was the last step of that try.
            return self._answer(decided)
        if self.digest != decided["digest"]:
            raise StateError(
                f"stream {context.stream}: an earlier operation has begun to forget another key (HMAC "
                f"{decided['digest'][:12]}…) and did not end. Finish it first, with that key; then "
                "forget this one."
            )
        if context.request.dry_run:
            return Answer(
                ("What an earlier operation has begun would be finished.",), data={"changed": False}
            )
        if pending is not None:
            self.make_current(decided, earlier.journal, pending.operation)
        return self._finish(decided)

    def _finish(self, decided: Mapping[str, Any]) -> Answer:
        """Remove what the new generation has replaced, and erase the reference."""
        context = self.context
        context.report("traces", "removing earlier checkpoints, copies, and what names the key")
        current = generations.current(context.generation.root)
        self.places.remove_generations(current)
        self.places.erase(keep=(context.request.operation,))
        made = self.places.savepoint(current) if decided["savepoints"] else ""
        storage.delete(f"{decided['folder_uri']}/{decided['key']}")
        context.request.erase_secrets()
        context.report("traces", READY)
        return self._answer(decided, made)

    @cached_property
    def subject(self) -> Subject:
        """The key.

        Raises:
            StateError: The stream has no key, or the request's reference is erased.
        """
        context, job = self.context, self.context.job
        if not hasattr(job, "key"):
            raise StateError(
                f"stream {context.stream}: expected a stream that computes rows by key, found one that lands "
                "records as they are. Forget the key for a stream that reads the topic: its records go from "
                "raw_events, too."
            )
        key = context.request.secret("key")
        if key is None:
            raise StateError(
                f"stream {context.stream}: expected the key to which the request refers, found that "
                "it is erased. "
                "Ask for it again, with the key."
            )
        return Subject(job.key.name, key, mask(self.context.secret, key))

    @cached_property
    def digest(self) -> str:
        """The HMAC of the key."""
        return digest_of(self.context.secret, self.subject.field, self.subject.key)

    @cached_property
    def places(self) -> Places:
        """Where the key can be, beside the state."""
        return Places(self.context, self.subject)

    def _others(self) -> list[str]:
        """Other streams of the project whose key is the same field."""
        project, field = Project.imported(), self.context.job.key.name
        jobs = {name: project.declaration(name) for name in project.streams() if name != self.context.stream}
        return [name for name, job in jobs.items() if hasattr(job, "key") and job.key.name == field]

    @property
    def _what(self) -> str:
        return "keys" if hasattr(self.context.job, "state_type") else "rows"

    def _answer(self, decided: Mapping[str, Any], savepoint: str = "") -> Answer:
        stream, held = self.context.stream, decided["held"]
        rebuilt = self.rebuilt
        lines = [
            f"{stream} {self.would('forget', 'has forgotten')} one key (HMAC {decided['digest'][:12]}…), as "
            f"generation {decided.get('generation', self.following.number)}."
        ]
        if rebuilt is not None:
            lines.append(f"Its state has {rebuilt.after:,} of {rebuilt.before:,} {rebuilt.what}.")
        elif "state" in decided:
            lines.append(f"Its state has {decided['state']['before']:,} {self._what} of the key.")
        if savepoints := decided["savepoints"]:
            lines.append(
                f"Savepoints of before {self.would('be', 'are')} removed: {', '.join(savepoints)}."
                + (f" Savepoint {savepoint} is new." if savepoint else "")
            )
        records = sum(row[4] for row in held)
        lines.append(
            f"Kafka still holds {records:,} records of the key; they are left out wherever they are "
            "read again."
            if records
            else "Kafka holds no record of the key."
        )
        if others := self._others():
            lines.append(
                f"{', '.join(others)} may have it as well, by the same field: forget it for each of "
                "them that has run."
            )
        rows = sorted((name, count) for name, count in decided["rows"].items() if count)
        columns = ("topic", "partition", "first offset", "last offset", "records", "retention")
        return Answer(
            tuple(lines),
            (Listing("Rows of the key", ("table", "rows"), rows), Listing("Still in Kafka", columns, held)),
            {
                "changed": not self.context.request.dry_run,
                "digest": decided["digest"],
                "rows": dict(decided["rows"]),
                "kafka": [dict(zip(columns, row, strict=True)) for row in held],
                "savepoints": list(savepoints),
                "savepoint": savepoint,
            },
        )
