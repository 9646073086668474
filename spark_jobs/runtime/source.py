"""Kafka records on their way into a processor: one scan, three lanes.

Every record goes through the processor, so that one pass accounts for all of them: valid events under their
key in the lane ``event``, dead letters per partition in ``dead``, ticks in ``tick``. The lane is part of the
grouping key, so no user can be called like a lane.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from spark_jobs.runtime.validation import (
    EVENT_TIME,
    TICK_KEY,
    Bounds,
    Field,
    parse_expression,
    time_expression,
    type_expression,
    value_expression,
    verdict_expression,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData, SparkSession

    from spark_jobs.runtime.config import Config

OBSERVATION = "newest_event_ms"
LANE_EVENT, LANE_DEAD, LANE_TICK, LANE_DATA_TICK = "event", "dead", "tick", "data_tick"
_FETCH_HEADROOM = 64 * 1024 * 1024


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
        .option("failOnDataLoss", "true")
        .option("kafka.fetch.max.bytes", str(_FETCH_HEADROOM))
        .option("kafka.max.partition.fetch.bytes", str(max(8 * 1024 * 1024, config.max_record_bytes)))
        .option("kafka.default.api.timeout.ms", "15000")
        .option("kafka.request.timeout.ms", "10000")
        .option("fetchOffset.numRetries", "1")
        .load()
    )


def classify(raw: DataFrame, config: Config, key: Field, fields: tuple[Field, ...]) -> DataFrame:
    """Parse and judge each record.

    Args:
        raw: `read_records`.
        config: The launch.
        key: The field by which the stream is keyed.
        fields: All declared fields, the key and the event time among them.

    Returns:
        ``lane, key, event_ms, topic, partition, offset, record_ms, record_key, value, reason, detail`` and
        ``v_<field>``.
    """
    bounds = Bounds(int(config.not_before.timestamp() * 1000), config.max_ahead_ms, config.max_record_bytes)
    is_tick = f"topic = '{config.tick_topic}'"
    is_data_tick = f"topic = '{config.topic}' AND key <=> cast('{TICK_KEY}' AS binary)"
    parsed = (
        raw.withColumnRenamed("timestamp", "record_timestamp")
        .withColumn("parsed", F.expr(parse_expression(bounds)))
        .withColumn(
            "body",
            F.expr(
                f"CASE WHEN {is_tick} THEN try_parse_json(cast(value AS string)) "
                "ELSE try_variant_get(parsed, '$[0]', 'variant') END"
            ),
        )
    )
    typed = parsed.select(
        "*",
        *(F.expr(value_expression(field)).alias(f"v_{field.name}") for field in fields),
        *(F.expr(type_expression(field)).alias(f"t_{field.name}") for field in fields),
        F.expr("try_variant_get(body, '$.tick', 'string')").alias("tick_time"),
        F.expr(
            f"CASE WHEN {is_tick} THEN '{LANE_TICK}' WHEN {is_data_tick} THEN '{LANE_DATA_TICK}' END"
        ).alias("tick_lane"),
    ).withColumn(
        "event_ts",
        F.expr(
            f"CASE WHEN tick_lane = '{LANE_TICK}' THEN try_to_timestamp(tick_time) "
            f"WHEN tick_lane IS NULL THEN {time_expression(f'v_{EVENT_TIME.name}')} END"
        ),
    )
    judged = typed.withColumn(
        "verdict", F.expr(f"CASE WHEN tick_lane IS NULL THEN {verdict_expression(fields, bounds)} END")
    ).withColumn(
        "lane",
        F.expr(f"coalesce(tick_lane, CASE WHEN verdict IS NULL THEN '{LANE_EVENT}' ELSE '{LANE_DEAD}' END)"),
    )
    return judged.select(
        "lane",
        F.expr(f"CASE lane WHEN '{LANE_EVENT}' THEN v_{key.name} ELSE cast(partition AS string) END").alias(
            "key"
        ),
        F.expr(f"CASE WHEN lane = '{LANE_EVENT}' THEN unix_millis(event_ts) END").alias("event_ms"),
        F.expr(f"CASE WHEN lane = '{LANE_TICK}' THEN event_ts END").alias("tick_ts"),
        "topic",
        "partition",
        "offset",
        F.expr("unix_millis(record_timestamp)").alias("record_ms"),
        F.expr(f"CASE WHEN lane = '{LANE_DEAD}' THEN key END").alias("record_key"),
        F.expr(f"CASE WHEN lane IN ('{LANE_EVENT}', '{LANE_DEAD}') THEN value END").alias("value"),
        F.expr("verdict.reason").alias("reason"),
        F.expr("verdict.detail").alias("detail"),
        *(f"v_{field.name}" for field in fields if field not in (key, EVENT_TIME)),
    )


def keyed(classified: DataFrame, lateness_ms: int, partitions: int) -> GroupedData:
    """Watermark and group; on the way, observe how far the events of each partition have got.

    Spark's watermark follows the largest time of any partition. When partitions are read at different
    speeds, as in every catch-up that takes more than one batch, that would make the slower ones late. So
    only ticks carry the watermark, and the driver sends them by what is observed here (`tick`). What is
    invalid is not observed.

    Spark also drops late rows where it sees the column with the watermark. The processor has to see them, to
    put them on record, so it is given the plain number ``event_ms`` and never that column; the watermark is
    still tracked.
    """
    newest = [
        F.max(F.expr(f"CASE WHEN lane = '{LANE_EVENT}' AND partition = {number} THEN event_ms END")).alias(
            str(number)
        )
        for number in range(partitions)
    ]
    observed = classified.observe(OBSERVATION, *newest)
    return (
        observed.withWatermark("tick_ts", f"{lateness_ms} milliseconds")
        .drop("tick_ts")
        .groupBy("lane", "key")
    )


def observed_times(metrics: Mapping[str, Any]) -> dict[int, int]:
    """The largest event time (ms) of each partition that had events, from observed metrics."""
    row = metrics.get(OBSERVATION)
    return {} if row is None else {int(name): time for name, time in row.asDict().items() if time is not None}
