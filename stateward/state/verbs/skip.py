"""The verb ``skip`` as an operation: what is lost is said, and the stream goes on after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from stateward.runtime.api.landing_job import LandingJob
from stateward.runtime.checkpoint import generations
from stateward.runtime.kafka.broker import Broker
from stateward.state.migration.skip_records import Skip
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.context import Context
from stateward.state.operation.errors import StateError
from stateward.state.savepoints.replay_reach import Gap, Kafka, landed_of, landed_since

_COLUMNS = ("topic", "partition", "expected next", "Kafka begins with", "lost", "of them in raw_events")


def skip_call(context: Context) -> Answer:
    """Let the stream go on after records that Kafka does not have any more."""
    return skip(context, Broker(context.request.config.bootstrap_servers))


def skip(context: Context, kafka: Kafka) -> Answer:
    """Let the stream go on after records that Kafka does not have any more.

    Nothing refers to the next generation before the last act, one write; whatever an attempt that died has
    left in its folder is removed first.

    Args:
        context: The operation.
        kafka: What the stream reads.

    Raises:
        StateError: It cannot be done; the stream's checkpoint is as it was.
        BrokerAwayError: Kafka does not answer.
    """
    plan = context.journal.plan
    if plan is not None and plan["generation"] == context.generation.number:
        # An earlier try has died after its last act; nobody else has been at the checkpoint since.
        gaps = [Gap(**gap) for gap in plan["gaps"]]
        return _answer(context, gaps, plan["batch"], context.generation.number)
    what = Skip(context.request.config, context.generation, kafka, context.report)
    found = what.gaps()
    if not found:
        line = f"Kafka has all that {context.stream} reads next. Nothing was changed."
        return Answer((line,), data={"changed": False, "gaps": []})
    _require_other_rows(context, found)
    batch = what.unread_batch()
    following = context.generation.following()
    if context.request.dry_run:
        return _answer(context, found, batch, following.number)
    context.journal.decide(
        {"generation": following.number, "gaps": [asdict(gap) for gap in found], "batch": batch}
    )
    unchanged = what.build(following.uri, found, batch)
    context.report("generation", f"{following.number} becomes the current one")
    context.take_over()
    generations.make_current(following, context.request.operation, context.clock())
    return _answer(context, found, batch, following.number, unchanged)


def _require_other_rows(context: Context, gaps: Sequence[Gap]) -> None:
    """Of a table in which the offset is who a row is, two topics of one name cannot be told apart."""
    anew = [gap for gap in gaps if gap.is_anew and gap.topic in context.request.config.topics]
    if anew and isinstance(context.job, LandingJob):
        raise StateError(
            f"stream {context.stream}: {anew[0]}. Its rows are known by their offsets, and those begin "
            "again. Move the old rows to another table, then begin a new checkpoint "
            "(docs/streams/raw_events.md). Nothing was changed."
        )


def _answer(
    context: Context, gaps: Sequence[Gap], batch: int | None, generation: int, unchanged: int | None = None
) -> Answer:
    request = context.request
    would, data = request.dry_run, [gap for gap in gaps if gap.topic in request.config.topics]
    lines = [
        f"{context.stream} {'would go' if would else 'goes'} on, as generation {generation}, after "
        f"{sum(gap.lost for gap in data):,} records that Kafka has lost."
    ]
    lines += [f"{gap}: how many records were lost is not known." for gap in data if gap.is_anew]
    if batch is not None:
        lines.append(
            f"Batch {batch}, which was to read them and has written nothing, {'would be' if would else 'is'} "
            "planned anew."
        )
    if unchanged is not None:
        lines.append(f"Every key, value and timer is what it was: {unchanged:,} files, byte for byte.")
    lines.append(
        f"What there is of the past: {landed_since(request.raw_uri, request.config.topics)}. `stateward "
        f"backfill {context.stream}` recomputes the tables from that (docs/backfill.md)."
    )
    rows = [(*_cells(gap), None if gap.is_anew else landed_of(request.raw_uri, gap)) for gap in data]
    return Answer(
        lines,
        (Listing("Lost", _COLUMNS, rows),),
        {
            "changed": not would,
            "generation": generation,
            "lost": sum(gap.lost for gap in data),
            "gaps": [asdict(gap) for gap in gaps],
        },
    )


def _cells(gap: Gap) -> tuple[str, int, int, int | None, int | None]:
    return gap.topic, gap.partition, gap.expected, gap.begins, None if gap.is_anew else gap.lost
