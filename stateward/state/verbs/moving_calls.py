"""The verbs ``advise`` and ``repartition`` as operations: how many partitions a state should have, and has.

To repartition, the next generation is built and proved, and then counts.
"""

from __future__ import annotations

from dataclasses import asdict, replace

from stateward.runtime.checkpoint import generations
from stateward.state.files import checkpoint_copy
from stateward.state.files.checkpoint_integrity import examine
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.context import Context
from stateward.state.operation.drained import require_drained
from stateward.state.partitions.advice import advise
from stateward.state.partitions.workload_stats import measured


def advise_call(context: Context) -> Answer:
    """Propose a number of partitions."""
    found = measured(context)
    advice = advise(found)
    proposal = (
        f"{context.stream} has {found.partitions} partitions, and {advice.partitions} are right."
        if advice.partitions == found.partitions
        else f"{context.stream} has {found.partitions} partitions, and should have {advice.partitions}: run "
        f"`repartition` with {advice.partitions}, or without a number."
    )
    rows = [
        ("partitions now", found.partitions),
        ("keys", found.keys),
        ("bytes of state", found.state_bytes),
        ("records a second, in the busiest hour of the last seven days", round(found.records_per_s, 1)),
        ("cores", found.cores),
        ("buckets", found.buckets),
    ]
    return Answer(
        (proposal, *advice.reasons),
        (Listing("Measured", ("what", "how much"), rows),),
        {"measured": asdict(found), **asdict(advice)},
    )


def repartition_call(context: Context) -> Answer:
    """Give the state another number of partitions.

    Nothing refers to the next generation before the last act, one write; whatever an attempt that died has
    left in its folder is removed first.

    Raises:
        StateError: It cannot be done, or the proof has failed; the stream's state is as it was.
    """
    if (done := _done_by_earlier_try(context)) is not None:
        return done
    wanted = context.request.arguments["partitions"]
    checkpoint = require_drained(context.stream, context.generation.uri, runs=context.runs)
    # What is asked of a stream that runs is answered from the plan of its last batch.
    now = checkpoint.state_partitions() if context.runs else examine(context.generation.uri).partitions
    advised: tuple[str, ...] = ()
    if wanted is None:
        advice = advise(measured(context))
        wanted, advised = (
            advice.partitions,
            (f"{advice.partitions} is what `advise` proposes.", *advice.reasons),
        )
    answer = _to(context, now, wanted)
    return replace(answer, lines=(*answer.lines, *advised))


def _to(context: Context, now: int | None, wanted: int) -> Answer:
    if now is None or now == wanted:
        line = f"{context.stream} has {wanted} partitions already. Nothing was changed."
        return Answer((line,), data={"changed": False, "partitions": wanted})
    if context.request.dry_run:
        return _would(context, now, wanted)
    context.journal.decide({"generation": context.generation.following().number, "before": now})
    return _do(context, wanted)


def _done_by_earlier_try(context: Context) -> Answer | None:
    """What is said again of a try that died after its last act; nobody else has been at the state since."""
    plan = context.journal.plan
    if plan is None or plan["generation"] != context.generation.number:
        return None
    now = examine(context.generation.uri).partitions
    line = f"{context.stream} has {now} partitions and had {plan['before']}; an earlier try has done it."
    return Answer(
        (line,), data={"changed": True, "partitions_before": plan["before"], "partitions_after": now}
    )


def _would(context: Context, now: int, wanted: int) -> Answer:
    size = checkpoint_copy.size_of(context.generation.uri)
    lines = (
        f"{context.stream} would go from {now} to {wanted} partitions, as generation "
        f"{context.generation.following().number}: {size:,} bytes would be copied, moved and compared.",
    )
    return Answer(lines, data={"changed": False, "partitions": now, "wanted": wanted, "bytes": size})


def _do(context: Context, wanted: int) -> Answer:
    # Verbs that need no Spark do not pay for its import.
    from stateward.state.partitions.repartition import repartition

    following = context.generation.following()
    checkpoint_copy.remove(following.uri)
    done = repartition(context.spark(), context.generation.uri, following.uri, wanted, context.report)
    context.report("generation", f"{following.number} becomes the current one")
    context.take_over()
    generations.make_current(following, context.request.operation, context.clock())
    digests = [(name, one.entries, one.keys, one.content) for name, one in sorted(done.digests.items())]
    return Answer(
        (
            f"{context.stream} has {done.partitions_after} partitions and had {done.partitions_before}; "
            f"generation {following.number} counts.",
            "Every key, value and timer is what it was, and lies where Spark looks for it.",
            f"Generation {context.generation.number} is still in {context.generation.uri}.",
        ),
        (
            Listing("Checksums, the same before and after", ("variable", "entries", "keys", "all"), digests),
            Listing(
                "Steps",
                ("step", "seconds", "bytes written"),
                [(step.name, step.seconds, step.bytes_written) for step in done.steps],
            ),
        ),
        asdict(done),
    )
