"""One stream's query: tables, source, processor and sink put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.runtime import sink, source
from spark_jobs.runtime.checkpoint import Checkpoint
from spark_jobs.runtime.lease_keeper import LeaseKeeper
from spark_jobs.runtime.ledger import Ledger
from spark_jobs.runtime.tables import SHARED_TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from spark_jobs.runtime.config import Config
    from spark_jobs.runtime.stream_job import StreamJob


class StreamQuery:
    """Starts and restarts the query of one launch.

    Args:
        spark: The session.
        job: The stream.
        config: The launch.
        partitions: Partitions of the data topic.
        keeper: Guards every write.
    """

    def __init__(
        self, spark: SparkSession, job: StreamJob, config: Config, partitions: int, keeper: LeaseKeeper
    ) -> None:
        self._spark = spark
        self._job = job
        self._config = config
        self._partitions = partitions
        self._keeper = keeper
        self.checkpoint = Checkpoint(config.checkpoint_uri)
        self.ledger: Ledger | None = None
        self._generation: str | None = None

    def create_tables(self) -> None:
        """Create the tables that are not there yet."""
        for table in (self._job.table, *SHARED_TABLES):
            table.create(self._config.tables[table.name])

    def start(self, *, once: bool = False) -> StreamingQuery:
        """Start the query; with ``once`` for one batch only."""
        fields = self._job.fields(self._config)
        raw = source.read_records(self._spark, self._config, self._partitions)
        events = source.classify(raw, self._config, self._job.key, fields)
        rows = source.keyed(events, self._config.allowed_lateness_ms, self._partitions).transformWithState(
            self._job.processor(self._config), self._job.output_ddl, "append", "eventTime"
        )
        writer = (
            rows.writeStream.foreachBatch(self._write)
            .queryName(self._config.stream)
            .option("checkpointLocation", self._config.checkpoint_uri)
        )
        if once:
            writer = writer.trigger(once=True)
        else:
            writer = writer.trigger(processingTime=f"{self._config.trigger_interval_ms} milliseconds")
        query = writer.start()
        self.ensure_ledger(str(query.id))
        return query

    def ensure_ledger(self, generation: str) -> Ledger:
        """The ledger of the checkpoint's generation, read once."""
        if self.ledger is None or self._generation != generation:
            self._generation = generation
            self.ledger = Ledger(self._config.tables["batch_counts"], self._config.stream, generation)
        return self.ledger

    def _write(self, batch: DataFrame, batch_id: int) -> None:
        # The first batch may begin before start() has returned, but the id is on disk by then.
        generation = self._generation or self.checkpoint.query_id()
        assert generation is not None  # Spark writes the checkpoint's metadata before its first batch
        outputs = sink.parts(
            self._job.kind, self._job.table.name, self._job.select, dict(self._config.tables)
        )
        sink.BatchSink(
            stream=self._config.stream,
            run_id=self._config.run_id,
            outputs=outputs,
            generation=generation,
            ledger=self.ensure_ledger(generation),
            check_lease=self._keeper.check,
        )(batch, batch_id)
