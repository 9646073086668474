"""Seeds a new stream on Spark's own operators: they read the events of a table before those of its topics.

What the operators keep has a form of their own, so they write it themselves. The first batch of the new
checkpoint runs the stream's own plan over the events of the table, without a watermark, so that nothing ends.
Then its offsets become those at which the stream starts to read, as if it had read no record.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from stateward.contract import storage
from stateward.contract.process_output import Report
from stateward.runtime.api.config import Config
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.api.record_fields import EVENT_TIME
from stateward.runtime.checkpoint.batch_plan import offset_json
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.offsets import Offsets
from stateward.runtime.ingest.event_rows import EventRowDecoder
from stateward.runtime.query.native_query import inputs_of, native_rows
from stateward.runtime.query.stream_query import session_conf
from stateward.runtime.session import start_coordinator
from stateward.runtime.sink.output_rows import KIND_COUNTS
from stateward.state.files.checkpoint_build import unfinished
from stateward.state.inspection.masker import Masker
from stateward.state.migration import replace_batch
from stateward.state.migration.bucket_writer import staged_files
from stateward.state.migration.event_converter import INPUT, EventConverter, event_source
from stateward.state.migration.seed_state import SeedFailedError, SeedRefusedError, wrong_rows
from stateward.state.migration.seed_table import redact_spark_errors
from stateward.state.reader import stores as in_stores
from stateward.state.reader.native_variables import DISTINCT
from stateward.state.reader.stores import checkpoint_format, settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource

_STAGED = "_states"
_SHUFFLE = "spark.sql.shuffle.partitions"
_SHOWN = 5


@dataclass(frozen=True)
class EventSurvey:
    """The contents of a table of events.

    Attributes:
        rows: Number of rows.
        events: Number of different events, by id within the key.
        keys: Number of keys.
        examples: The first events as key and JSON, masked.
    """

    rows: int
    events: int
    keys: int
    examples: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class NativeSeedResult:
    """The result: the contents of the table, and the rows of each store, by operator."""

    survey: EventSurvey
    stored: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True)
class NativeSeed:
    """Lets the operators of a new stream read the events of one table.

    Attributes:
        spark: A session.
        job: The stream.
        config: Its launch.
        table: The rows.
        columns: The columns of the key.
        separator: Separator between several columns.
        now_ms: The time, milliseconds since 1970 UTC, for limits of event times.
        report: Called with ``check``, ``write`` and ``prove``.
        masker: Masks keys and events in the examples.
    """

    spark: SparkSession
    job: NativeJob
    config: Config
    table: DataFrame
    columns: tuple[str, ...]
    separator: str
    now_ms: int
    report: Report
    masker: Masker

    def survey(self) -> EventSurvey:
        """Check every row, without writing.

        Raises:
            SeedRefusedError: A column is missing, or rows are no events of the stream.
        """
        self.report("check", "every row of the table")
        self._require_columns()
        with self._spark_errors():
            return self._survey()

    def run(self, target_uri: str, begin: Offsets) -> NativeSeedResult:
        """Build the checkpoint; files in the target's folder are removed.

        Args:
            target_uri: Folder of the checkpoint.
            begin: Start offsets of the stream.

        Raises:
            SeedRefusedError: A column is missing, rows are no events, or some of them complete a row of a
                table among themselves.
            SeedFailedError: Spark failed, or the state is not that of the events.
        """
        survey = self.survey()
        with self._spark_errors(), unfinished(target_uri, {"stream": self.config.stream}):
            self.report("write", f"{survey.events:,} events into the state of {self.config.stream}")
            counted = self._write(target_uri, begin)
            self.report("prove", f"the state of {self.config.stream}")
            return NativeSeedResult(survey, self._prove(target_uri, survey, counted))

    @cached_property
    def _converters(self) -> tuple[EventConverter, ...]:
        """One for each input."""
        names = [one.name for one in self.job.inputs] or [""]
        decoders = [decoder for decoder, _, _ in inputs_of(self.config, self.job)]
        return tuple(
            EventConverter(decoder, name, self.columns, self.separator, self.now_ms)
            for name, decoder in zip(names, decoders, strict=True)
        )

    def _require_columns(self) -> None:
        wanted = [*self.columns, *(one for converter in self._converters for one in converter.required)]
        if self.job.inputs:
            wanted.append(INPUT)
        gone = [name for name in dict.fromkeys(wanted) if name not in self.table.columns]
        if gone:
            raise SeedRefusedError(
                f"stream {self.config.stream}: expected columns {', '.join(gone)} in the table, found none "
                "of these names. A table for Spark's own operators has events: a column for each field of "
                f"the stream's records, and `{INPUT}` if it reads several topics. Nothing was changed."
            )

    def _events(self, converter: EventConverter) -> DataFrame:
        """The events of one input: the columns of its decoder, and why a row is none."""
        rows = self.table.where(F.col(INPUT) == converter.input) if converter.input else self.table
        return rows.mapInArrow(converter.batches, f"{converter.decoder.ddl}, _key string, _wrong string")

    def _survey(self) -> EventSurvey:
        key = self.job.key.name
        found = [
            self._events(converter).select(
                F.lit(converter.input).alias("input"),
                F.col("_key").alias("key"),
                F.col("_wrong").alias("wrong"),
                "event_id",
                F.to_json(F.struct(EVENT_TIME.name, "event_id", key)).alias("shown"),
            )
            for converter in self._converters
        ]
        events = reduce(lambda one, other: one.unionByName(other), found).cache()
        try:
            self._require_events(events)
            different = events.select("input", "key", "event_id").distinct()
            shown = events.orderBy("key", "event_id").limit(_SHOWN).collect()
            return EventSurvey(
                events.count(),
                different.count(),
                events.select("key").distinct().count(),
                tuple((self.masker.key(row["key"]), self._shown(row)) for row in shown),
            )
        finally:
            events.unpersist()

    def _shown(self, row: Any) -> str:
        return self.masker.text(row["shown"], row["key"])

    def _require_events(self, events: DataFrame) -> None:
        reason = wrong_rows(events.where("wrong IS NOT NULL"), self.masker, "are no event")
        if not reason and self.job.inputs:
            known = [one.name for one in self.job.inputs]
            strange = self.table.where(~F.coalesce(F.col(INPUT).isin(known), F.lit(False))).count()
            reason = f"{strange:,} rows have another `{INPUT}` than {', '.join(known)}" if strange else ""
        if not reason and events.isEmpty():
            reason = "no event in it"
        if reason:
            raise SeedRefusedError(
                f"stream {self.config.stream}: expected a table with an event of the stream in each row, "
                f"found that {reason}. Correct the table. Nothing was changed."
            )

    def _write(self, target_uri: str, begin: Offsets) -> Counter[str]:
        """Run the first batch; returns the accepted events, and the rows of each table."""
        Checkpoint(target_uri).write_initial_offsets(begin)
        offsets = offset_json(begin)
        staged_uri = f"{target_uri}/{_STAGED}"
        sources = iter(self._staged(staged_uri, offsets))
        found: Counter[str] = Counter()

        def note(batch: DataFrame, batch_id: int) -> None:
            # In one job, because each job commits the state.
            for row in batch.collect():
                is_count = row["kind"] == KIND_COUNTS
                name = "accepted" if is_count else row["kind"]
                found[name] += json.loads(bytes(row["data"]))["accepted"] if is_count else row["rows"]

        def read(decoder: EventRowDecoder, topic: str | None) -> DataFrame:
            source = next(sources)
            self.spark.dataSource.register(source)
            return self.spark.readStream.format(source.name()).load()

        with settings(self.spark, self._settings()):
            query = (
                native_rows(self.config, self.job, read)
                .writeStream.foreachBatch(note)
                .queryName(f"first states of {self.config.stream}")
                .option("checkpointLocation", target_uri)
                .trigger(once=True)
                .start()
            )
            query.awaitTermination()
        storage.delete(staged_uri)
        plan = storage.read_text(f"{target_uri}/offsets/0")
        assert plan is not None  # the batch has ended
        _, _, *lines = plan.split("\n")
        replace_batch.write_sources(target_uri, 0, [json.dumps(offsets)] * len(lines))
        return found

    def _settings(self) -> dict[str, str]:
        """What a driver of the stream sets, besides what the session has of its YAML."""
        wanted = {**session_conf(self.job, self.config), _SHUFFLE: str(self.config.state_partitions)}
        return {name: value for name, value in wanted.items() if name not in self.config.spark_conf}

    def _staged(self, staged_uri: str, begin: dict[str, Any]) -> list[type[DataSource]]:
        """A source for each input, which reads its events from files."""
        made = []
        for number, converter in enumerate(self._converters):
            uri = f"{staged_uri}/{number}"
            events = self._events(converter).drop("_key", "_wrong")
            events.write.mode("overwrite").option("compression", "zstd").parquet(uri)
            made.append(
                event_source(f"stateward-staged-events-{number}", staged_files(uri), begin, converter.decoder)
            )
        return made

    def _prove(
        self, target_uri: str, survey: EventSurvey, counted: Counter[str]
    ) -> tuple[tuple[str, str, int], ...]:
        stream, accepted = self.config.stream, counted.pop("accepted", 0)
        if written := +counted:
            rows = ", ".join(f"{number:,} rows of {table}" for table, number in sorted(written.items()))
            raise SeedRefusedError(
                f"stream {stream}: expected events that wait for others, found some that complete {rows} "
                "among themselves, such as both sides of an inner join. Leave those out whose rows are "
                "written already; the others can come through the topic. Nothing was changed."
            )
        if accepted != survey.events:
            raise SeedFailedError(
                f"stream {stream}: expected {survey.events:,} events in the state, found {accepted:,}. The "
                "stream still has none; report this"
            )
        with checkpoint_format(self.spark, target_uri):
            stored = [
                (store.operator, store.name, in_stores.load(self.spark, target_uri, store).count())
                for store in in_stores.stores(self.spark, target_uri)
            ]
        ids = sum(rows for operator, _, rows in stored if operator == DISTINCT)
        if ids < survey.events:
            raise SeedFailedError(
                f"stream {stream}: expected the ids of {survey.events:,} events in the state, found {ids:,}. "
                "The stream still has none; report this"
            )
        return tuple(stored)

    @contextmanager
    def _spark_errors(self) -> Iterator[None]:
        failed = (
            f"stream {self.config.stream}: its operators could not read the table; the stream has no state"
        )
        start_coordinator(self.spark)
        with redact_spark_errors(SeedFailedError, failed):
            yield
