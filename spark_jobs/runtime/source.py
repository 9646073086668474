"""Kafka records on their way into the stateful operator: one scan, packed into buckets (`pack`, `lanes`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from spark_jobs.runtime.kafka_source import Scan, source_of
from spark_jobs.runtime.lanes import LANE_EVENT
from spark_jobs.runtime.pack import Packer
from spark_jobs.runtime.validation import Bounds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData, SparkSession

    from spark_jobs.runtime.config import Config
    from spark_jobs.runtime.stream_job import StreamJob

OBSERVATION = "newest_event_ms"


def read_packed(spark: SparkSession, config: Config, job: StreamJob, partitions: int) -> DataFrame:
    """The stream of the data topic and the tick topic, each record parsed, judged and packed.

    Args:
        spark: The session.
        config: The launch.
        job: The stream.
        partitions: How many partitions the data topic has.

    Returns:
        `lanes.PACKED_DDL`.
    """
    scan = Scan(
        bootstrap=config.bootstrap_servers,
        topics={config.topic: partitions},
        tick_topic=config.tick_topic,
        from_latest=config.starting_offsets == "latest",
        most_records=config.max_records_per_batch,
        checkpoint_uri=config.checkpoint_uri,
    )
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
    source = source_of(scan, packer)
    spark.dataSource.register(source)
    return spark.readStream.format(source.name()).load()


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
