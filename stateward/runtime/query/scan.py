"""Kafka records on their way into stateful operators: one scan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stateward.runtime.ingest.record_decoder import RecordDecoder
from stateward.runtime.kafka.planner import Scan, TimeSource
from stateward.runtime.kafka.source import source_of
from stateward.runtime.watermark.tick import TickRule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData, SparkSession

    from stateward.runtime.api.config import Config
    from stateward.runtime.api.stream_job import StreamJob
    from stateward.runtime.ingest.record_batch import Decoder


def read(
    spark: SparkSession, config: Config, sorter: Decoder, partitions: int, time: TimeSource
) -> DataFrame:
    """The stream of the data topic and its ticks, each record parsed, judged and sorted.

    Args:
        spark: The session.
        config: The launch.
        sorter: What becomes of the records.
        partitions: How many partitions the data topic has.
        time: How the stream comes by the time.

    Returns:
        `Sorter.ddl`.
    """
    scan = Scan(
        bootstrap=config.bootstrap_servers,
        topics={config.topic: partitions},
        time=time,
        from_latest=config.starting_offsets == "latest",
        most_records=config.max_records_per_batch,
        checkpoint_uri=config.checkpoint_uri,
    )
    source = source_of(scan, sorter)
    spark.dataSource.register(source)
    return spark.readStream.format(source.name()).load()


def time_rule(config: Config) -> TickRule:
    """How a stream ticks."""
    mode = "processing" if config.in_processing_time and config.tick.mode != "off" else config.tick.mode
    return TickRule(
        mode=mode,
        interval_ms=config.tick.interval_ms,
        due_ms=config.trigger_interval_ms,
        delay_ms=config.watermark_delay_ms,
    )


def packer_of(config: Config, job: StreamJob) -> RecordDecoder:
    """The sorter that packs events into buckets (`pack`, `lanes`)."""
    return RecordDecoder(
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


def keyed(packed: DataFrame, lateness_ms: int) -> GroupedData:
    """Watermark and group.

    Spark's watermark follows the largest time of any partition. When partitions are read at different
    speeds, as in every catch-up that takes more than one batch, that would make the slower ones late. So
    only ticks carry the watermark, and the planner decides on them (`tick`).

    Spark also drops late rows where it sees the column with the watermark. The processor has to see them, to
    put them on record, so it is not given that column; the watermark is still tracked.
    """
    return (
        packed.withWatermark("tick_ts", f"{lateness_ms} milliseconds")
        .drop("tick_ts")
        .groupBy("lane", "bucket")
    )
