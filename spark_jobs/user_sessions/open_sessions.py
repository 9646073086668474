"""The view ``open_sessions``: sessions that may still grow, read from state at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from stateward.runtime.keyed.newest_states import keyed_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STATE_DDL = (
    "state struct<session_id: string, started_ms: bigint, last_ms: bigint, event_count: bigint, "
    "last_event_type: string, gap_ms: bigint>, held array<string>"
)


def open_sessions(spark: SparkSession, checkpoint_uri: str, batch_id: int | None = None) -> DataFrame:
    """Open sessions as of a committed batch.

    Events that the watermark has not passed yet are not in a session; they are counted in ``held_events``,
    and a user who has only such events has no ``session_id`` yet.

    Args:
        spark: A session; it need not be the one that runs the stream.
        checkpoint_uri: The checkpoint of one generation, such as the status names.
        batch_id: A retained batch, or None for the newest.

    Returns:
        ``user_id string, session_id string, started_at timestamp, last_event_at timestamp, event_count
        bigint, last_event_type string, gap_ms bigint, held_events int``.
    """
    return (
        keyed_state(spark, checkpoint_uri, batch_id)
        .withColumn("kept", F.from_json("state", _STATE_DDL))
        .where("kept.state IS NOT NULL OR kept.held IS NOT NULL")
        .selectExpr(
            "key AS user_id",
            "kept.state.session_id",
            "timestamp_millis(kept.state.started_ms) AS started_at",
            "timestamp_millis(kept.state.last_ms) AS last_event_at",
            "kept.state.event_count",
            "kept.state.last_event_type",
            "kept.state.gap_ms",
            "coalesce(size(kept.held), 0) AS held_events",
        )
    )
