"""The verb ``seed``: a table becomes the first checkpoint of a stream that has none."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from stateward.contract.privacy.forgotten import Register
from stateward.runtime.api.config import Config
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.generations import Generation
from stateward.runtime.checkpoint.offsets import Offsets
from stateward.runtime.kafka.broker import Broker, TopicMissingError
from stateward.state.compatibility.descriptor import describe, write_descriptor
from stateward.state.errors import StateError
from stateward.state.migration.initial_state import SeedConverter
from stateward.state.migration.native_seed import EventSurvey, NativeSeed, NativeSeedResult
from stateward.state.migration.seed_state import Seed, SeedResult, SeedSurvey
from stateward.state.migration.seed_table import read_table, without_forgotten
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.verb import NextGeneration
from stateward.state.reader.key_evaluator import evaluator_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SeedVerb(NextGeneration[Seed | NativeSeed]):
    """Make the first states of a stream of the rows of a table."""

    name = "seed"
    left_out = 0
    """Rows of forgotten keys."""

    def plan(self) -> Seed | NativeSeed:
        """Check the stream, and read the table.

        Raises:
            StateError: The stream has a checkpoint or keeps no state, or the table cannot be read.
        """
        context, job = self.context, self.context.job
        require_new(context.stream, context.generation)
        if not isinstance(job, StreamJob | NativeJob):
            raise StateError(
                f"stream {context.stream}: expected a stream that keeps state, found one that does not. "
                "Nothing was changed."
            )
        arguments, roots = context.request.arguments, context.request.seed_roots
        rows = read_table(context.spark, context.stream, arguments["table"], arguments["format"], roots)
        columns = tuple(name.strip() for name in arguments["key"].split(","))
        rows = self._known(rows, job.key.name, columns)
        if isinstance(job, StreamJob):
            return self._of_states(job, rows, columns)
        return NativeSeed(
            context.spark(),
            job,
            context.request.config,
            rows,
            columns,
            arguments["separator"],
            int(context.clock().timestamp() * 1000),
            context.report,
            context.masker,
        )

    def _known(self, rows: DataFrame, field: str, columns: tuple[str, ...]) -> DataFrame:
        """The rows without those of keys that a stream has forgotten by the same field."""
        register = Register(self.context.request.config.forgotten_uri).keys()
        forgotten = frozenset(one.digest for one in register if one.field == field)
        # A column that is missing is named by the check of the table.
        if not forgotten or not set(columns) <= set(rows.columns):
            return rows
        key = (field, columns, self.context.request.arguments["separator"])
        left = without_forgotten(rows, key, forgotten, self.context.secret)
        self.left_out = rows.count() - left.count()
        return left

    def _of_states(self, job: StreamJob, rows: DataFrame, columns: tuple[str, ...]) -> Seed:
        context, config = self.context, self.context.request.config
        evaluator, buckets = evaluator_of(job, config), config.state_buckets
        separator = context.request.arguments["separator"]
        converter = SeedConverter(evaluator, columns, separator, job.seed, buckets, job.only)
        session, partitions, version = context.spark(), config.state_partitions, job.state_version
        return Seed(
            session, context.stream, rows, converter, partitions, version, context.report, context.masker
        )

    def preview(self, plan: Seed | NativeSeed) -> Answer:
        """Report with how many keys the stream would start."""
        survey = plan.survey()
        line = f"{self.context.stream} would begin with {self._found(survey)}."
        return Answer(
            (line, *self._left_out(), *_skipped(survey)),
            (_examples(survey),),
            {"changed": False, **asdict(survey)},
        )

    def apply(self, plan: Seed | NativeSeed) -> Answer:
        """Write the first checkpoint, and prove it.

        Raises:
            BrokerAwayError: Kafka does not answer.
        """
        config, following = self.context.request.config, self.following
        done = plan.run(following.uri, _begin(config))
        write_descriptor(following.uri, describe(self.context.job, config))
        proof, listing = _proof(done)
        return Answer(
            (
                f"{self.context.stream} begins with {self._found(done.survey)}, as generation "
                f"{following.number}.",
                proof,
                *self._left_out(),
                *_skipped(done.survey),
            ),
            (_examples(done.survey), listing),
            {"changed": True, "generation": following.number, **asdict(done)},
        )

    def _left_out(self) -> list[str]:
        return [f"{self.left_out:,} rows of forgotten keys are left out."] if self.left_out else []

    def _found(self, survey: SeedSurvey | EventSurvey) -> str:
        table = self.context.request.arguments["table"]
        events = f"{survey.events:,} events of " if isinstance(survey, EventSurvey) else ""
        return f"{events}{survey.keys:,} keys of {survey.rows:,} rows in {table}"


def _proof(done: SeedResult | NativeSeedResult) -> tuple[str, Listing]:
    if isinstance(done, NativeSeedResult):
        rows = Listing("Rows in the state", ("operator", "store", "rows"), done.stored)
        return "Each event is in the state once, and none of them has completed a row of a table yet.", rows
    sums = [(bucket, one.keys, one.content) for bucket, one in sorted(done.buckets.items())]
    listing = Listing("Checksums, computed and found", ("bucket", "keys", "keys and states"), sums)
    return "Each is as it was computed, and where the stream looks for it.", listing


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


def _skipped(survey: SeedSurvey | EventSurvey) -> list[str]:
    if isinstance(survey, EventSurvey):
        twice = survey.rows - survey.events
        return [f"{twice:,} rows have the id and the key of another one, and count once."] if twice else []
    if not survey.skipped:
        return []
    return [f"{survey.skipped:,} rows have no state, by the stream's own function."]


def _examples(survey: SeedSurvey | EventSurvey) -> Listing:
    of = "event" if isinstance(survey, EventSurvey) else "state"
    return Listing("Examples", ("key", of), survey.examples)
