"""Kafka records on their way into the stateful operator: one scan, packed into buckets (`pack`, `lanes`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from spark_jobs.runtime.lanes import LANE_EVENT, PACKED_DDL
from spark_jobs.runtime.pack import Packer
from spark_jobs.runtime.validation import Bounds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData, SparkSession

    from spark_jobs.runtime.config import Config
    from spark_jobs.runtime.stream_job import StreamJob

OBSERVATION = "newest_event_ms"
_FETCH_HEADROOM = 64 * 1024 * 1024
# A full batch is read in this many tasks, whatever the number of partitions, so that no core waits for the
# last of them; a small batch in one per partition.
_TASKS_PER_FULL_BATCH = 6
_FEWEST_RECORDS_PER_TASK = 5_000


def read_records(spark: SparkSession, config: Config, partitions: int) -> DataFrame:
    """The raw stream of the data topic and the tick topic.

    Args:
        spark: The session.
        config: The launch.
        partitions: How many partitions the data topic has. Used for a new checkpoint only.
    """
    start = {"earliest": -2, "latest": -1}[config.starting_offsets]
    offsets = {
        config.topic: {str(partition): start for partition in range(partitions)},
        # Old ticks say nothing about a new checkpoint: they would make its whole backlog late.
        config.tick_topic: {"0": -1},
    }
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", config.bootstrap_servers)
        .option("subscribe", f"{config.topic},{config.tick_topic}")
        .option("startingOffsets", json.dumps(offsets))
        .option("maxOffsetsPerTrigger", str(config.max_records_per_batch))
        .option(
            "maxRecordsPerPartition",
            str(max(_FEWEST_RECORDS_PER_TASK, config.max_records_per_batch // _TASKS_PER_FULL_BATCH)),
        )
        .option("failOnDataLoss", "true")
        .option("kafka.fetch.max.bytes", str(_FETCH_HEADROOM))
        .option("kafka.max.partition.fetch.bytes", str(max(8 * 1024 * 1024, config.max_record_bytes)))
        .option("kafka.default.api.timeout.ms", "15000")
        .option("kafka.request.timeout.ms", "10000")
        .option("fetchOffset.numRetries", "1")
        .load()
    )


def pack(raw: DataFrame, config: Config, job: StreamJob) -> DataFrame:
    """Parse, judge and pack each record.

    Args:
        raw: `read_records`.
        config: The launch.
        job: The stream.

    Returns:
        `lanes.PACKED_DDL`.
    """
    packer = Packer(
        key=job.key.name,
        fields=job.fields(config),
        bounds=Bounds(
            int(config.not_before.timestamp() * 1000), config.max_ahead_ms, config.max_record_bytes
        ),
        event=job.event,
        buckets=config.state_buckets,
        topic=config.topic,
        checkpoint_uri=config.checkpoint_uri,
    )
    records = raw.select(
        (F.col("topic") == config.tick_topic).alias("is_tick"),
        "key",
        "value",
        "partition",
        "offset",
        F.expr("unix_millis(timestamp)").alias("record_ms"),
    )
    return records.mapInArrow(packer, PACKED_DDL)


def keyed(packed: DataFrame, lateness_ms: int, partitions: int) -> GroupedData:
    """Watermark and group; on the way, observe how far the events of each partition have got.

    Spark's watermark follows the largest time of any partition. When partitions are read at different
    speeds, as in every catch-up that takes more than one batch, that would make the slower ones late. So
    only ticks carry the watermark, and the driver sends them by what is observed here (`tick`). What is
    invalid is not observed.

    Spark also drops late rows where it sees the column with the watermark. The processor has to see them, to
    put them on record, so it is not given that column; the watermark is still tracked.
    """
    newest = [
        F.max(F.expr(f"CASE WHEN lane = '{LANE_EVENT}' AND partition = {number} THEN newest_ms END")).alias(
            str(number)
        )
        for number in range(partitions)
    ]
    observed = packed.observe(OBSERVATION, *newest)
    return (
        observed.withWatermark("tick_ts", f"{lateness_ms} milliseconds")
        .drop("tick_ts", "partition", "newest_ms")
        .groupBy("lane", "bucket")
    )


def observed_times(metrics: Mapping[str, Any]) -> dict[int, int]:
    """The largest event time (ms) of each partition that had events, from observed metrics."""
    row = metrics.get(OBSERVATION)
    return {} if row is None else {int(name): time for name, time in row.asDict().items() if time is not None}
