"""The verb ``seed`` as an operation: a table becomes the first checkpoint of a stream that has none."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from stateward.runtime.api.config import Config
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.generations import Generation
from stateward.runtime.kafka.broker import Broker, TopicMissingError
from stateward.runtime.kafka.offsets import Offsets
from stateward.state.compatibility.descriptor import describe, write_descriptor
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.context import Context
from stateward.state.operation.errors import StateError

if TYPE_CHECKING:
    from stateward.state.migration.seed_state import Seed, SeedSurvey


def seed_call(context: Context) -> Answer:
    """Make the first states of a stream of the rows of a table.

    Nothing refers to the new checkpoint before the last act, one write.

    Raises:
        StateError: It cannot be done, or the proof has failed; the stream has no state, as before.
        BrokerAwayError: Kafka does not answer.
    """
    job, table = context.job, context.request.arguments["table"]
    require_new(context.stream, context.generation)
    if not isinstance(job, StreamJob):
        raise StateError(
            f"stream {context.stream}: expected a stream of keyed logic, found another kind: what Spark's "
            "own operators keep cannot be written from outside. Fill its tables with `stateward backfill`."
        )
    seed = _seed(context, job)
    if context.request.dry_run:
        survey = seed.survey()
        line = f"{context.stream} would begin with {survey.keys:,} keys of {survey.rows:,} rows in {table}."
        return Answer((line, *_skipped(survey)), (_examples(survey),), {"changed": False, **asdict(survey)})
    config, following = context.request.config, context.generation.following()
    done = seed.run(following.uri, _begin(config))
    write_descriptor(following.uri, describe(job, config))
    context.report("generation", f"{following.number} becomes the current one")
    context.take_over()
    generations.make_current(following, context.request.operation, context.clock())
    sums = [(bucket, one.keys, one.content) for bucket, one in sorted(done.buckets.items())]
    return Answer(
        (
            f"{context.stream} begins with {done.survey.keys:,} keys of {done.survey.rows:,} rows in "
            f"{table}, as generation {following.number}.",
            "Each is as it was computed, and where it is looked for.",
            *_skipped(done.survey),
        ),
        (
            _examples(done.survey),
            Listing("Checksums, computed and found", ("bucket", "keys", "keys and states"), sums),
        ),
        {"changed": True, "generation": following.number, **asdict(done)},
    )


def require_new(stream: str, generation: Generation) -> None:
    """Make sure that a stream has no checkpoint.

    Raises:
        StateError: It has one.
    """
    if Checkpoint(generation.uri).last_planned() >= 0:
        raise StateError(
            f"stream {stream}: expected a stream without a checkpoint, found one in {generation.uri}. What "
            "it keeps would be lost: take a new stream, or remove the checkpoint by hand if the stream is to "
            "begin anew."
        )


def _seed(context: Context, job: StreamJob) -> Seed:
    # What is refused does not pay for Spark.
    from stateward.state.migration.initial_state import Seeding
    from stateward.state.migration.key_evaluator import rule_of
    from stateward.state.migration.seed_state import Seed
    from stateward.state.migration.seed_table import read_table

    arguments, config = context.request.arguments, context.request.config
    kind, table, roots = arguments["format"], arguments["table"], context.request.seed_roots
    rows = read_table(context.spark, context.stream, table, kind, roots)
    how = Seeding(
        rule_of(job, config),
        tuple(name.strip() for name in arguments["key"].split(",")),
        arguments["separator"],
        job.seed,
        config.state_buckets,
        job.only,
    )
    partitions, version = config.state_partitions, job.state_version
    return Seed(
        context.spark(), context.stream, rows, how, partitions, version, context.report, context.masker
    )


def _begin(config: Config) -> Offsets:
    """Where the stream begins to read, as its driver would decide it."""
    broker = Broker(config.bootstrap_servers)
    begin: Offsets = {}
    for topic in config.topics:
        try:
            count = broker.ensure_topic(
                topic, config.topic_partitions, create=config.create_topics, stream=config.stream
            )
        except TopicMissingError as error:
            raise StateError(str(error)) from error
        from_latest = config.starting_offsets == "latest"
        begin[topic] = (broker.end_offsets if from_latest else broker.begin_offsets)(topic, count)
    return begin


def _skipped(survey: SeedSurvey) -> list[str]:
    if not survey.skipped:
        return []
    return [f"{survey.skipped:,} rows have no state, by the stream's own function."]


def _examples(survey: SeedSurvey) -> Listing:
    return Listing("Examples", ("key", "state"), survey.examples)
