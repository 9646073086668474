"""Kafka records on their way into stateful operators: one scan, and what is observed of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from spark_jobs.runtime.kafka_source import Scan, source_of
from spark_jobs.runtime.pack import Packer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData, SparkSession

    from spark_jobs.runtime.config import Config
    from spark_jobs.runtime.intake import Sorter
    from spark_jobs.runtime.stream_job import StreamJob

OBSERVATION = "newest_event_ms"


def read(
    spark: SparkSession, config: Config, sorter: Sorter, partitions: int, rounds: str | None = None
) -> DataFrame:
    """The stream of the data topic and the tick topic, each record parsed, judged and sorted.

    Args:
        spark: The session.
        config: The launch.
        sorter: What becomes of the records.
        partitions: How many partitions the data topic has.
        rounds: See `Scan`.

    Returns:
        `Sorter.ddl`.
    """
    scan = Scan(
        bootstrap=config.bootstrap_servers,
        topics={config.topic: partitions},
        tick_topic=config.tick_topic,
        from_latest=config.starting_offsets == "latest",
        most_records=config.max_records_per_batch,
        checkpoint_uri=config.checkpoint_uri,
        rounds=rounds,
    )
    source = source_of(scan, sorter)
    spark.dataSource.register(source)
    return spark.readStream.format(source.name()).load()


def packer_of(config: Config, job: StreamJob) -> Packer:
    """The sorter that packs events into buckets (`pack`, `lanes`)."""
    return Packer(
        owner=job.owner,
        fields=job.fields(config),
        bounds=config.bounds,
        event=job.event,
        buckets=config.state_buckets,
        topic=config.topic,
        checkpoint_uri=config.checkpoint_uri,
        on_arrival=config.in_processing_time,
        only=job.only,
    )


def keyed(packed: DataFrame, lateness_ms: int, partitions: int) -> GroupedData:
    """Watermark and group; on the way, observe how far the events of each partition have got.

    Spark's watermark follows the largest time of any partition. When partitions are read at different
    speeds, as in every catch-up that takes more than one batch, that would make the slower ones late. So
    only ticks carry the watermark, and the driver sends them by what is observed here (`tick`). What is
    invalid is not observed.

    Spark also drops late rows where it sees the column with the watermark. The processor has to see them, to
    put them on record, so it is not given that column; the watermark is still tracked.
    """
    return (
        observe(packed, partitions)
        .withWatermark("tick_ts", f"{lateness_ms} milliseconds")
        .drop("tick_ts", "partition", "newest_ms")
        .groupBy("lane", "bucket")
    )


def observe(rows: DataFrame, partitions: int) -> DataFrame:
    """Observe the largest ``newest_ms`` of each ``partition``; a null in either counts for nothing."""
    newest = [
        F.max(F.expr(f"CASE WHEN partition = {number} THEN newest_ms END")).alias(str(number))
        for number in range(partitions)
    ]
    return rows.observe(OBSERVATION, *newest)


def observed_times(metrics: Mapping[str, Any]) -> dict[int, int]:
    """The largest event time (ms) of each partition that had events, from observed metrics."""
    row = metrics.get(OBSERVATION)
    return {} if row is None else {int(name): time for name, time in row.asDict().items() if time is not None}
