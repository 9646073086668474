"""The query of a stream: tables, source, operators and sink."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from stateward.contract.names import BATCH_COUNTS
from stateward.runtime.api.landing_job import LandingJob
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.api.tables import DEAD_LETTERS, LATE_EVENTS, SHARED_TABLES
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.lookup_versions import versions_from
from stateward.runtime.delta.commit_retry import app_id
from stateward.runtime.delta.table_repair import repair
from stateward.runtime.ingest import landing
from stateward.runtime.ingest.packed_format import OUTPUT_DDL
from stateward.runtime.ingest.record_batch import NextWatermark
from stateward.runtime.ingest.record_decoder import RecordDecoder
from stateward.runtime.kafka.broker_clock import BrokerClock
from stateward.runtime.kafka.late_values import LateValues
from stateward.runtime.kafka.planner import TimeSource
from stateward.runtime.kafka.planner_handover import Handover, new_handover
from stateward.runtime.kafka.scan_barrier import new_barrier_file
from stateward.runtime.keyed.bucket_processor import BucketProcessor
from stateward.runtime.keyed.copy_folders import prepare_copy
from stateward.runtime.keyed.log_store import LogBackend
from stateward.runtime.keyed.state_sizes import StateSizes
from stateward.runtime.lease.lease_keeper import LeaseKeeper
from stateward.runtime.query import scan
from stateward.runtime.query.native_query import NATIVE_CONF, WATERMARK_POLICY, native_rows
from stateward.runtime.session import CODE_FACTORY, NO_CODE
from stateward.runtime.sink import sink
from stateward.runtime.sink.fence import take_over
from stateward.runtime.sink.ledger import Ledger, recorded_times
from stateward.runtime.sink.row_files import RowFiles, row_files
from stateward.runtime.sink.topic_sink import TopicSink
from stateward.runtime.watermark.due_times import BucketTimers, UnknownTimers
from stateward.runtime.watermark.topic_partitions import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from stateward.runtime.api.any_job import AnyJob
    from stateward.runtime.api.config import Config
    from stateward.runtime.watermark.partition_times import Times


# Spark processes only a few packed rows per batch, but generates code for them in every batch and for every
# state variable: a third of the CPU time of a small batch.
KEYED_CONF = {
    "spark.sql.codegen.wholeStage": "false",
    CODE_FACTORY: NO_CODE,
}


def session_conf(job: AnyJob, config: Config) -> dict[str, str]:
    """Settings of the session in addition to those of `session`."""
    if isinstance(job, NativeJob):
        return {**NATIVE_CONF, WATERMARK_POLICY: config.watermark_policy}
    return KEYED_CONF


class StreamQuery:
    """Starts and restarts the query of one launch.

    Args:
        spark: The session.
        job: The stream.
        config: The launch.
        partitions: The number of partitions of each data topic.
        keeper: Checks the lease before every write.
        note_start: Called once, before the first batch runs.

    Attributes:
        clock: The broker's time; tests replace it.
        sizes: The sizes of a keyed stream's buckets; None for another stream.
    """

    def __init__(
        self,
        spark: SparkSession,
        job: AnyJob,
        config: Config,
        partitions: Mapping[str, int],
        keeper: LeaseKeeper,
        *,
        note_start: Callable[[], None],
    ) -> None:
        self._spark = spark
        self._job = job
        self._config = config
        self._partitions = partitions
        self._keeper = keeper
        self._note_start = note_start
        self.checkpoint = Checkpoint(config.checkpoint_uri)
        self.timers: BucketTimers | UnknownTimers
        if isinstance(job, NativeJob):
            self.timers = UnknownTimers()
        else:
            self.timers = BucketTimers(config.state_buckets, new=self.checkpoint.last_planned() < 0)
        self.sizes: StateSizes | None = None
        if isinstance(job, StreamJob):
            self.sizes = StateSizes(config.state_buckets, new=self.checkpoint.last_planned() < 0)
        self.ledger: Ledger | None = None
        self._ledger_lock = Lock()
        self._generation: str | None = None
        self._noted = False
        self.clock = BrokerClock(config.tick_topic)
        self._handover: Handover | None = None
        self._topics = _topic_sink(job, config)

    def create_tables(self) -> None:
        """Create missing tables and take over the others.

        Commits torn by a power loss are taken back. Earlier holders of the lease can no longer write.

        Raises:
            LeaseLostError: Another driver has the lease.
            TornTableError: A file of a committed batch is incomplete.
        """
        generation, last = self.checkpoint.query_id(), self.checkpoint.last_committed()
        for table in (*(output.table for output in self._job.outputs), *SHARED_TABLES):
            uri = self._config.tables[table.name]
            repair(uri, app_id(str(generation), table.name), last)
            table.create(uri)
            take_over(uri, self._config.stream, self._keeper.check)

    def start(self, *, once: bool = False) -> StreamingQuery:
        """Start the query; with ``once`` for one batch only."""
        if self._job.ticks:
            self._handover = self._new_handover()
        writer = (
            self._rows()
            .writeStream.foreachBatch(self._write)
            .queryName(self._config.stream)
            .option("checkpointLocation", self._config.checkpoint_uri)
        )
        if once:
            writer = writer.trigger(once=True)
        else:
            writer = writer.trigger(processingTime=f"{self._config.trigger_interval_ms} milliseconds")
        return writer.start()

    def _rows(self) -> DataFrame:
        """The output of the stream, with the columns `packed_format.OUTPUT_DDL`."""
        job, config = self._job, self._config
        if isinstance(job, LandingJob):
            files = self._row_files(sum(self._partitions.values()))
            return landing.read_landed(self._spark, config, job, self._partitions, files)
        partitions, files = self._partitions, self._row_files(config.state_partitions)
        time = TimeSource(scan.time_rule(config), self.clock, str(self.handover.file))
        if isinstance(job, NativeJob):
            time = replace(time, barrier_file=new_barrier_file(_local_folder(config)))
            if job.inputs:
                time = replace(time, by_topic=scan.rules_by_topic(config), policy=config.watermark_policy)
            return native_rows(
                config,
                job,
                lambda decoder, topic: scan.read(self._spark, config, decoder, partitions, time, reads=topic),
                files,
            )
        decoder = RecordDecoder.of(config, job)
        packed = scan.read(self._spark, config, decoder, partitions, time, lookups=decoder.lookups)
        grouped = scan.keyed(packed, config.watermark_delay_ms)
        return grouped.transformWithState(_processor(job, config, files), OUTPUT_DDL, "append", "eventTime")

    def _row_files(self, tasks: int) -> RowFiles:
        config = self._config
        tables = [output.table for output in self._job.outputs]
        # Where they go through the stateful operator, as in a keyed stream.
        tables += [DEAD_LETTERS, LATE_EVENTS] if isinstance(self._job, StreamJob) else []
        return row_files(
            config.stream,
            [(table, config.tables[table.name]) for table in tables],
            returned=config.sink_topics,
            checkpoint_uri=config.checkpoint_uri,
            tasks=tasks,
        )

    @property
    def handover(self) -> Handover:
        """The data for the planner of the current start; only after `start` of a job with ticks."""
        assert self._handover is not None
        return self._handover

    def note_state(self, rows: int) -> None:
        """Set the number of rows in the state after the last batch."""
        self.timers.note_state(rows)
        if self._handover is not None and self._handover.published.due != self.timers.due:
            self._handover.publish(due=self.timers.due)

    def _new_handover(self) -> Handover:
        handover = new_handover(Path(_local_folder(self._config)))
        query_id = self.checkpoint.query_id()
        times = None
        if query_id is not None:
            counts_uri, earlier = self._config.tables[BATCH_COUNTS], self.checkpoint.earlier()
            times = recorded_times(counts_uri, self._config.stream, query_id, earlier)
        handover.publish(times=times, due=self.timers.due)
        return handover

    def _note_times(self, times: Times | None) -> None:
        if self._handover is not None:
            self._handover.publish(times=times, due=self.timers.due)

    def ensure_ledger(self, generation: str) -> Ledger:
        """The ledger of the checkpoint's generation, read once."""
        # The first batch may ask at the same time, in another thread; it has to count in the same one.
        with self._ledger_lock:
            if self.ledger is None or self._generation != generation:
                uri, earlier = self._config.tables[BATCH_COUNTS], self.checkpoint.earlier()
                self.ledger = Ledger(uri, self._config.stream, generation, earlier)
                self._generation = generation
            return self.ledger

    def _write(self, batch: DataFrame, batch_id: int) -> None:
        if not self._noted:
            # Spark has accepted the plan, and this start has not committed any state yet.
            self._note_start()
            self._noted = True
        # The first batch may run before start() has returned, but the id is on disk by then.
        generation = self._generation or self.checkpoint.query_id()
        assert generation is not None  # Spark writes the checkpoint's metadata before its first batch
        own = tuple(
            (output.table, self._config.tables[output.table.name], False) for output in self._job.outputs
        )
        shared = tuple(
            (table, self._config.tables[table.name], True) for table in (DEAD_LETTERS, LATE_EVENTS)
        )
        sink.BatchSink(
            stream=self._config.stream,
            run_id=self._config.run_id,
            outputs=own + shared,
            generation=generation,
            ledger=self.ensure_ledger(generation),
            check_lease=self._keeper.check,
            note_timers=self.timers.note,
            checkpoint_uri=self._config.checkpoint_uri,
            note_times=self._note_times,
            note_sizes=self.sizes.note if self.sizes is not None else None,
            topics=self._topics,
            lookups_from=partial(versions_from, self.checkpoint) if self._config.lookups else None,
        )(batch, batch_id)


def _topic_sink(job: AnyJob, config: Config) -> TopicSink | None:
    if not config.sink_topics:
        return None
    key = "" if isinstance(job, LandingJob) else job.key.name
    # Drivers of one lease have one name, and those of another installation on the cluster have another.
    lease = hashlib.sha256(config.lease.uri.encode()).hexdigest()[:8]
    name = f"stateward-{config.stream}-{lease}"
    return TopicSink(config.bootstrap_servers, config.stream, config.sink_topics, key, name)


def _processor(job: StreamJob, config: Config, files: RowFiles) -> BucketProcessor:
    return BucketProcessor(
        logic=job.logic(config),
        state_type=job.state_type,
        event_type=job.event_type,
        outputs=job.outputs,
        limits=config.limits,
        topics=Topics(config.topics),
        late_values=LateValues(config.bootstrap_servers, Topics(config.topics)),
        next_watermark=NextWatermark(config.checkpoint_uri, config.watermark_delay_ms),
        state_version=job.state_version,
        state_steps=job.state_steps,
        backend=LogBackend(_cache_root(config), config.checkpoint_uri),
        files=files,
    )


def _cache_root(config: Config) -> str:
    if config.state_cache_dir:
        return config.state_cache_dir
    return str(Path(tempfile.gettempdir()) / f"stateward-state-{os.getuid()}" / config.stream)


def _local_folder(config: Config) -> str:
    return str(prepare_copy(_cache_root(config), config.checkpoint_uri))
