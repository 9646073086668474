"""The verb ``split``: some of a stream's keys become those of a new stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from stateward.runtime.api.any_job import writing
from stateward.runtime.api.config import Config
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.generations import Generation
from stateward.state.compatibility.descriptor import describe, read_descriptor, write_descriptor
from stateward.state.compatibility.split_findings import split_findings
from stateward.state.errors import StateError
from stateward.state.migration.split_state import Split
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.drained import require_drained
from stateward.state.operation.journal import Journal
from stateward.state.operation.leased import leased
from stateward.state.operation.verb import Earlier, NextGeneration
from stateward.state.verbs.migrate import migrated_descriptor, migration_of, require_enough
from stateward.state.verbs.seed import require_new

Descriptor = dict[str, Any]


@dataclass(frozen=True)
class Other:
    """The stream that takes keys: its declaration, its configuration, and its current generation."""

    job: StreamJob
    config: Config
    generation: Generation


@dataclass(frozen=True)
class Plan:
    """What the checkpoint holds, and what both streams declare."""

    found: Descriptor
    stays: Descriptor
    goes: Descriptor


class SplitVerb(NextGeneration[Plan]):
    """Divide a stream's keys between it and a new stream.

    Both next generations are built and proved before anything refers to them. Then an operation is announced,
    so that the stream cannot start; the new stream's generation becomes current, and then its own. If the
    operation dies in between, the next run does the rest.
    """

    name = "split"
    is_announced = True

    @cached_property
    def other(self) -> Other:
        """The new stream.

        Raises:
            StateError: One of the two is not a stream of keyed logic.
        """
        context, config = self.context, self.context.request.other
        assert config is not None  # a field that the verb requires
        job = writing(context.job_of(config.stream), config.tables)
        for stream, declared in ((context.stream, context.job), (config.stream, job)):
            if not isinstance(declared, StreamJob):
                raise StateError(
                    f"stream {stream}: expected a stream of keyed logic, found another kind: what Spark's "
                    "own operators keep cannot be divided. Nothing was changed."
                )
        return Other(job, config, generations.current(config.checkpoint_uri))

    def plan(self) -> Plan:
        """Check that the two declarations divide the keys, and that the other stream is new.

        Raises:
            StateError: There is no state, or the two would not divide the keys.
        """
        context, other = self.context, self.other
        stream, into = context.stream, other.config.stream
        require_drained(stream, context.generation.uri, runs=context.runs)
        found = read_descriptor(context.generation.uri)
        if found is None:
            raise StateError(
                f"stream {stream}: expected a checkpoint with a committed batch, found none. There is no "
                "state to divide: start both streams."
            )
        stays, goes = describe(context.job, context.request.config), describe(other.job, other.config)
        if problems := list(split_findings(found, stays, goes)):
            raise StateError(
                f"stream {stream}: expected declarations of {stream} and {into} that divide its keys, found "
                f"{'; '.join(problems)}. Nothing was changed."
            )
        require_enough(stream, found, stays, is_split=True)
        require_new(into, other.generation)
        return Plan(found, stays, goes)

    def preview(self, plan: Plan) -> Answer:
        """Report how many keys would stay, and how many would go."""
        stays, goes = self._split(plan).survey()
        stream, into = self.context.stream, self.other.config.stream
        return Answer(
            (
                f"{goes:,} of {stays + goes:,} keys would go to {into}, and {stays:,} would stay with "
                f"{stream}.",
                f"{into} would begin to read where {stream} goes on.",
            ),
            data={"changed": False, "stays": stays, "goes": goes},
        )

    def decision(self, plan: Plan) -> Mapping[str, Any]:
        """Which generations are to be current."""
        first = self.other.generation.following()
        return {
            "folder": self.following.folder,
            "into": self.other.config.stream,
            "into_root": first.root,
            "into_generation": first.number,
            "into_folder": first.folder,
        }

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lease of the other stream as well.

        Raises:
            LeaseHeldError: The other stream runs.
            StateError: It was started in the meantime.
        """
        context, config = self.context, self.other.config
        with leased(config, context.request.operation) as check:
            require_new(config.stream, generations.current(config.checkpoint_uri))

            def report(part: str, what: str) -> None:
                check()
                context.report(part, what)

            self.context = replace(context, report=report)
            yield

    def apply(self, plan: Plan) -> Answer:
        """Build both next generations, and prove that each key is in exactly one of them."""
        context, other = self.context, self.other
        following, first = self.following, other.generation.following()
        checkpoint = Checkpoint(context.generation.uri)
        planned = checkpoint.planned(checkpoint.last_committed())
        assert planned is not None  # it is drained
        # The other stream begins where this one ended.
        begin = {topic: dict(ends) for topic, ends in planned.offsets.items() if topic in other.config.topics}
        done = self._split(plan).run(following.uri, first.uri, begin)
        write_descriptor(following.uri, migrated_descriptor(plan.found, plan.stays))
        write_descriptor(first.uri, plan.goes)
        whole, stay, go = done.whole, done.stays.keys_after, sum(one.keys for one in done.goes.values())
        stream, into = context.stream, other.config.stream
        columns = ("stream", "bucket", "keys", "keys and states")
        sums = [
            (name, bucket, one.keys, one.content)
            for name, of_buckets in ((stream, done.stays.buckets), (into, done.goes))
            for bucket, one in sorted(of_buckets.items())
        ]
        return Answer(
            (
                f"{go:,} of {whole.keys:,} keys are {into}'s now, and {stay:,} stay with {stream}.",
                f"Generation {following.number} counts, and generation {first.number} of {into}, which can "
                "be started.",
                "Each key is in exactly one of the two, with its state and its alarm: checksums "
                f"{whole.content} and {whole.alarms}, before and after.",
                f"Generation {context.generation.number} is still in {context.generation.uri}.",
            ),
            (Listing("Checksums, computed and found", columns, sums),),
            {
                "changed": True,
                "generation": following.number,
                "into_generation": first.number,
                "stays": stay,
                "goes": go,
                "whole": asdict(whole),
            },
        )

    def before_current(self, decided: Mapping[str, Any], journal: Journal, operation: str) -> None:
        """Make the generation of the other stream current, unless it is.

        First, so that the stream does not run without the keys that no stream has yet; until its own next
        generation is current it does not start at all.
        """
        first = Generation(decided["into_root"], decided["into_generation"], decided["into_folder"])
        self.context.report("generation", f"{first.number} of {decided['into']} becomes the current one")
        self.context.take_over()
        if generations.current(first.root).number < first.number:
            generations.make_current(first, operation, self.context.clock())

    def resume(self, earlier: Earlier) -> Answer:
        """Finish an unfinished split; the run that died has the figures of its proof.

        Raises:
            StateError: It gives keys to another stream than this one.
        """
        context, to, stream, into = self.context, earlier.plan, self.context.stream, earlier.plan["into"]
        if (pending := earlier.pending) is not None:
            if into != self.other.config.stream:
                raise StateError(
                    f"stream {stream}: operation {pending.operation} has begun to give keys to {into} and "
                    f"did not end. Finish it first: `stateward state split {stream} --into {into}`."
                )
            if context.request.dry_run:
                line = f"The split into {into} that {pending.operation} has begun would be finished."
                return Answer((line,), data={"changed": False})
            is_new = self.other.generation.number < to["into_generation"]
            with self.hold() if is_new else nullcontext():
                self.make_current(to, earlier.journal, pending.operation)
        line = (
            f"{stream} and {into} have divided the keys; an earlier try has proved it. Generation "
            f"{to['generation']} counts, and generation {to['into_generation']} of {into}, which can be "
            "started."
        )
        names = ("generation", "into_generation")
        return Answer((line,), data={"changed": True, **{name: to[name] for name in names}})

    def _split(self, plan: Plan) -> Split:
        context, other = self.context, self.other
        stays = migration_of(context, context.job, context.request.config, plan.found)
        goes = migration_of(context, other.job, other.config, plan.found)
        return Split(stays, goes, other.config.state_partitions, context.report)
