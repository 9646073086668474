"""The verb ``split`` as an operation: of a stream's keys some become another stream's."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from stateward.runtime.api.config import Config
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.generations import Generation, Pending
from stateward.runtime.kafka.offsets import Offsets
from stateward.state.compatibility.descriptor import describe, found_descriptor, joined, write_descriptor
from stateward.state.compatibility.split_findings import split_findings
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.context import Context
from stateward.state.operation.drained import require_drained
from stateward.state.operation.errors import StateError
from stateward.state.operation.journal import Journal
from stateward.state.operation.leased import leased
from stateward.state.verbs.migrate import migration_of, require_enough, without_keys_and_states
from stateward.state.verbs.seed import require_new

if TYPE_CHECKING:
    from stateward.state.migration.split_state import Divided, Split

VERB = "split"

Descriptor = dict[str, Any]


@dataclass(frozen=True)
class _Other:
    """The stream that takes keys: its declaration, its configuration, and its current generation."""

    job: StreamJob
    config: Config
    generation: Generation

    @property
    def stream(self) -> str:
        return self.config.stream


@dataclass(frozen=True)
class _Plan:
    """Which generations are to count: written down before the first of them does."""

    generation: int
    folder: str
    into: str
    into_root: str
    into_generation: int
    into_folder: str


def split_call(context: Context) -> Answer:
    """Divide a stream's keys between it and a new stream.

    Both next generations are built and proved before anything refers to them. Then the stream is marked, so
    that nobody starts it; the new stream's counts, and its own. Of a death in between the next run makes the
    rest.

    Raises:
        StateError: It cannot be done, or a proof has failed; both streams are as they were.
        LeaseHeldError: The other stream runs.
        BrokerAwayError: Kafka does not answer.
    """
    other = _other(context)
    if context.generation.pending is not None:
        return _finish(context, other, context.generation.pending)
    if context.journal.plan is not None:
        plan = _Plan(**context.journal.plan)
        if plan.generation == context.generation.number:
            return _done(context, plan)  # an earlier try has died after its last act
    require_drained(context.stream, context.generation.uri, runs=context.runs)
    found, stays, goes = _described(context, other)
    require_enough(context.stream, found, stays, is_split=True)
    require_new(other.stream, other.generation)
    if context.request.dry_run:
        return _would(context, other, found)
    with leased(other.config, context.request.operation) as check:
        require_new(other.stream, generations.current(other.config.checkpoint_uri))

        def report(part: str, what: str) -> None:
            check()
            context.report(part, what)

        return _do(replace(context, report=report), other, (found, stays, goes))


def _other(context: Context) -> _Other:
    config = context.request.other
    assert config is not None  # a field that the verb requires
    job = context.job_of(config.stream)
    for stream, declared in ((context.stream, context.job), (config.stream, job)):
        if not isinstance(declared, StreamJob):
            raise StateError(
                f"stream {stream}: expected a stream of keyed logic, found another kind: what Spark's own "
                "operators keep cannot be divided. Nothing was changed."
            )
    return _Other(job, config, generations.current(config.checkpoint_uri))


def _described(context: Context, other: _Other) -> tuple[Descriptor, Descriptor, Descriptor]:
    """What the checkpoint holds, and what both streams declare.

    Raises:
        StateError: There is no state, or the two would not divide the keys.
    """
    found = found_descriptor(context.generation.uri)
    if found is None:
        raise StateError(
            f"stream {context.stream}: expected a checkpoint with a committed batch, found none. There is no "
            "state to divide: start both streams."
        )
    stays, goes = describe(context.job, context.request.config), describe(other.job, other.config)
    if problems := list(split_findings(found, stays, goes)):
        raise StateError(
            f"stream {context.stream}: expected declarations of {context.stream} and {other.stream} that "
            f"divide its keys, found {'; '.join(problems)}. Nothing was changed."
        )
    return found, stays, goes


def _split(context: Context, other: _Other, found: Descriptor) -> Split:
    # What is refused does not pay for Spark.
    from stateward.state.migration.split_state import Split

    stays = migration_of(context, context.job, context.request.config, found)
    goes = migration_of(context, other.job, other.config, found)
    return Split(stays, goes, other.config.state_partitions, context.report)


def _would(context: Context, other: _Other, found: Descriptor) -> Answer:
    stays, goes = _split(context, other, found).survey()
    return Answer(
        (
            f"Of {stays + goes:,} keys {goes:,} would go to {other.stream}, and {stays:,} would stay with "
            f"{context.stream}.",
            f"{other.stream} would begin to read where {context.stream} goes on.",
        ),
        data={"changed": False, "stays": stays, "goes": goes},
    )


def _do(context: Context, other: _Other, described: tuple[Descriptor, Descriptor, Descriptor]) -> Answer:
    found, stays, goes = described
    following, first = context.generation.following(), other.generation.following()
    done = _split(context, other, found).run(following.uri, first.uri, _begin(context, other.config))
    write_descriptor(following.uri, joined(without_keys_and_states(found), stays))
    write_descriptor(first.uri, goes)
    plan = _Plan(following.number, following.folder, other.stream, first.root, first.number, first.folder)
    context.journal.decide(asdict(plan))
    context.report("generation", f"{following.number}, and {first.number} of {other.stream}, become current")
    pending = Pending(context.request.operation, VERB, context.journal.uri)
    generations.announce(context.generation, pending, context.clock())
    _carry_out(context, plan, context.request.operation)
    return _told(context, plan, done)


def _told(context: Context, plan: _Plan, done: Divided) -> Answer:
    whole, stay, go = done.whole, done.stays.keys_after, sum(one.keys for one in done.goes.values())
    sums = [
        (stream, bucket, one.keys, one.content)
        for stream, of_buckets in ((context.stream, done.stays.buckets), (plan.into, done.goes))
        for bucket, one in sorted(of_buckets.items())
    ]
    return Answer(
        (
            f"Of {whole.keys:,} keys {go:,} are {plan.into}'s now, and {stay:,} stay with {context.stream}.",
            f"Generation {plan.generation} counts, and generation {plan.into_generation} of {plan.into}, "
            "which can be started.",
            f"Each key is in exactly one of the two, with its state and its alarm: checksums {whole.content} "
            f"and {whole.alarms}, before and after.",
            f"Generation {context.generation.number} is still in {context.generation.uri}.",
        ),
        (Listing("Checksums, computed and found", ("stream", "bucket", "keys", "keys and states"), sums),),
        {**_data(plan), "stays": stay, "goes": go, "whole": asdict(whole)},
    )


def _begin(context: Context, config: Config) -> Offsets:
    """Where the other stream begins: where the first one ended."""
    checkpoint = Checkpoint(context.generation.uri)
    planned = checkpoint.planned(checkpoint.last_committed())
    assert planned is not None  # it is drained
    return {topic: dict(ends) for topic, ends in planned.offsets.items() if topic in config.topics}


def _finish(context: Context, other: _Other, pending: Pending) -> Answer:
    """What an earlier run has begun and did not end."""
    journal = Journal(pending.journal_uri, context.clock)
    if pending.verb != VERB or journal.plan is None:
        context.generation.require_settled(context.stream)
        raise AssertionError("unreachable: an operation that is under way was let pass")
    plan = _Plan(**journal.plan)
    if plan.into != other.stream:
        raise StateError(
            f"stream {context.stream}: operation {pending.operation} has begun to give keys to {plan.into} "
            f"and did not end. Finish it first: `stateward state split {context.stream} --into {plan.into}`."
        )
    if context.request.dry_run:
        line = f"The split into {plan.into} that {pending.operation} has begun would be finished."
        return Answer((line,), data={"changed": False})
    if other.generation.number < plan.into_generation:
        with leased(other.config, context.request.operation):
            require_new(other.stream, generations.current(other.config.checkpoint_uri))
            _carry_out(context, plan, pending.operation)
    else:
        _carry_out(context, plan, pending.operation)
    return _done(context, plan)


def _carry_out(context: Context, plan: _Plan, operation: str) -> None:
    context.take_over()
    first = Generation(plan.into_root, plan.into_generation, plan.into_folder)
    # First, so that the stream does not run without the keys that nobody has yet; until its own next
    # generation counts it does not start at all.
    if generations.current(first.root).number < first.number:
        generations.make_current(first, operation, context.clock())
    following = Generation(context.generation.root, plan.generation, plan.folder)
    generations.make_current(following, operation, context.clock())


def _done(context: Context, plan: _Plan) -> Answer:
    """What is said of a split whose figures are with the run that has died."""
    line = (
        f"{context.stream} and {plan.into} have divided the keys; an earlier try has proved it. Generation "
        f"{plan.generation} counts, and generation {plan.into_generation} of {plan.into}, which can be "
        "started."
    )
    return Answer((line,), data=_data(plan))


def _data(plan: _Plan) -> dict[str, Any]:
    return {"changed": True, "generation": plan.generation, "into_generation": plan.into_generation}
