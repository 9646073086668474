"""The view ``open_sessions``: sessions that may still grow, read from state at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.runtime.source import LANE_EVENT
from spark_jobs.user_sessions.model import STATE_NAME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def open_sessions(spark: SparkSession, checkpoint_uri: str, batch_id: int | None = None) -> DataFrame:
    """Open sessions as of a committed batch.

    Events that the watermark has not passed yet are not in a session; they are counted in ``held_events``,
    and a user who has only such events has no ``session_id`` yet.

    Args:
        spark: A session; it need not be the one that runs the stream.
        checkpoint_uri: The stream's checkpoint.
        batch_id: A retained batch, or None for the newest.

    Returns:
        ``user_id string, session_id string, started_at timestamp, last_event_at timestamp, event_count
        bigint, last_event_type string, gap_ms bigint, held_events int``.
    """
    # In a session that has run no stream the state store's coordinator does not exist until it is asked for.
    _ = spark.streams.active
    reader = spark.read.format("statestore").option("stateVarName", STATE_NAME)
    if batch_id is not None:
        reader = reader.option("batchId", str(batch_id))
    return (
        reader.load(checkpoint_uri)
        .where(f"key.lane = '{LANE_EVENT}' AND (value.session IS NOT NULL OR size(value.held) > 0)")
        .selectExpr(
            "key.key AS user_id",
            "value.session.session_id",
            "timestamp_millis(value.session.started_ms) AS started_at",
            "timestamp_millis(value.session.last_ms) AS last_event_at",
            "value.session.event_count",
            "value.session.last_event_type",
            "value.session.gap_ms",
            "size(value.held) AS held_events",
        )
    )
