"""The scan of a stream with event time: from Kafka records to the input of stateful operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from stateward.runtime.delta.lookup_tables import LookupTable
from stateward.runtime.kafka.planner import Scan, TimeSource
from stateward.runtime.kafka.source import source_for
from stateward.runtime.kafka.tick import TickRule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData, SparkSession

    from stateward.runtime.api.config import Config
    from stateward.runtime.kafka.source import Decoder


def read(
    spark: SparkSession,
    config: Config,
    decoder: Decoder,
    partitions: Mapping[str, int],
    time: TimeSource,
    *,
    lookups: tuple[LookupTable, ...] = (),
    reads: str | None = None,
) -> DataFrame:
    """Read the data topics and their ticks, decoded.

    Args:
        spark: The session.
        config: The launch.
        decoder: Decodes the records.
        partitions: The number of partitions of each data topic.
        time: The source of time.
        lookups: The tables by which records are enriched.
        reads: The topic to read; None for all of them.

    Returns:
        Rows of `Decoder.ddl`.
    """
    scan = Scan(
        bootstrap=config.bootstrap_servers,
        topics=partitions,
        time=time,
        from_latest=config.starting_offsets == "latest",
        most_records=config.max_records_per_batch,
        target_batch_s=config.target_batch_s,
        checkpoint_uri=config.checkpoint_uri,
        forgotten_uri=config.forgotten_uri,
        lookups=lookups,
        reads=reads,
    )
    source = source_for(scan, decoder)
    spark.dataSource.register(source)
    return spark.readStream.format(source.name()).load()


def time_rule(config: Config) -> TickRule:
    """The tick rule of a stream."""
    mode = "processing" if config.in_processing_time and config.tick.mode != "off" else config.tick.mode
    return TickRule(
        mode=mode,
        interval_ms=config.tick.interval_ms,
        due_ms=config.trigger_interval_ms,
        delay_ms=config.watermark_delay_ms,
    )


def rules_by_topic(config: Config) -> dict[str, TickRule]:
    """The tick rule of each topic, if each has a watermark."""
    rule = time_rule(config)
    return {
        topic: replace(rule, delay_ms=lateness_ms, asked_ms=lateness_ms - config.watermark_delay_ms)
        for topic in config.topics
        for lateness_ms in (config.lateness_of(topic),)
    }


def keyed(packed: DataFrame, lateness_ms: int) -> GroupedData:
    """Set the watermark and group by lane and bucket.

    Spark's watermark follows the largest time of all partitions. When partitions are read at different
    speeds, as in every catch-up of more than one batch, the events of slower ones would be late. So only
    ticks carry the watermark, and the planner decides them (`tick`).

    Spark also drops late rows if an operator's input has the watermark's column. The processor must record
    late events, so this column is dropped; Spark still tracks the watermark.
    """
    return (
        packed.withWatermark("tick_ts", f"{lateness_ms} milliseconds")
        .drop("tick_ts")
        .groupBy("lane", "bucket")
    )
