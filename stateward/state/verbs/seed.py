"""The verb ``seed``: a table becomes the first checkpoint of a stream that has none."""

from __future__ import annotations

from dataclasses import asdict

from stateward.runtime.api.config import Config
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.generations import Generation
from stateward.runtime.checkpoint.offsets import Offsets
from stateward.runtime.kafka.broker import Broker, TopicMissingError
from stateward.state.compatibility.descriptor import describe, write_descriptor
from stateward.state.errors import StateError
from stateward.state.migration.initial_state import SeedConverter
from stateward.state.migration.seed_state import Seed, SeedSurvey
from stateward.state.migration.seed_table import read_table
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.verb import NextGeneration
from stateward.state.reader.key_evaluator import evaluator_of


class SeedVerb(NextGeneration[Seed]):
    """Make the first states of a stream of the rows of a table."""

    name = "seed"

    def plan(self) -> Seed:
        """Check the stream, and read the table.

        Raises:
            StateError: The stream has a checkpoint or is not keyed, or the table cannot be read.
        """
        context, job, config = self.context, self.context.job, self.context.request.config
        arguments = context.request.arguments
        require_new(context.stream, context.generation)
        if not isinstance(job, StreamJob):
            raise StateError(
                f"stream {context.stream}: expected a stream of keyed logic, found another kind: what "
                "Spark's own operators keep cannot be written from outside. Fill its tables with `stateward "
                "backfill`."
            )
        roots, kind = context.request.seed_roots, arguments["format"]
        rows = read_table(context.spark, context.stream, arguments["table"], kind, roots)
        columns = tuple(name.strip() for name in arguments["key"].split(","))
        evaluator, buckets = evaluator_of(job, config), config.state_buckets
        converter = SeedConverter(evaluator, columns, arguments["separator"], job.seed, buckets, job.only)
        session, partitions, version = context.spark(), config.state_partitions, job.state_version
        return Seed(
            session, context.stream, rows, converter, partitions, version, context.report, context.masker
        )

    def preview(self, plan: Seed) -> Answer:
        """Report how many keys the stream would begin with."""
        survey, table = plan.survey(), self.context.request.arguments["table"]
        line = (
            f"{self.context.stream} would begin with {survey.keys:,} keys of {survey.rows:,} rows in {table}."
        )
        return Answer((line, *_skipped(survey)), (_examples(survey),), {"changed": False, **asdict(survey)})

    def apply(self, plan: Seed) -> Answer:
        """Write the first checkpoint, and prove it.

        Raises:
            BrokerAwayError: Kafka does not answer.
        """
        config, following = self.context.request.config, self.following
        done = plan.run(following.uri, _begin(config))
        write_descriptor(following.uri, describe(self.context.job, config))
        sums = [(bucket, one.keys, one.content) for bucket, one in sorted(done.buckets.items())]
        return Answer(
            (
                f"{self.context.stream} begins with {done.survey.keys:,} keys of {done.survey.rows:,} rows "
                f"in {self.context.request.arguments['table']}, as generation {following.number}.",
                "Each is as it was computed, and where the stream looks for it.",
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
            "start over."
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
