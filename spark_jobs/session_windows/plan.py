"""The operators of ``session_windows``: one aggregation by session window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from stateward.runtime.query.native_query import event_instant, row_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from stateward.runtime.api.config import Config


def plan(events: DataFrame, config: Config) -> dict[str, DataFrame]:
    """The rows of the table; a session's is there once the watermark has reached its last event plus the gap.

    Spark merges events that are exactly the gap of the window apart, which are two sessions here. So the
    window's gap is one microsecond less. The time of an event's row is one microsecond after its millisecond
    (`event_rows`), so the window ends exactly at the last event plus the gap.
    """
    gap = f"{config.logic['gap_ms'] * 1000 - 1} microseconds"
    sessions = events.groupBy("user_id", F.session_window("event_time", gap).alias("session")).agg(
        F.count("*").alias("event_count"),
        # Ids decide between events of the same time, as in the order of `user_sessions`.
        F.min(F.struct("event_time", "event_id")).alias("first"),
        F.max(F.struct("event_time", "event_id", "event_type")).alias("last"),
    )
    started_ms, ended_ms = F.unix_millis("first.event_time"), F.unix_millis("last.event_time")
    rows = sessions.select(
        row_id("user_id", started_ms, "first.event_id").alias("session_id"),
        "user_id",
        event_instant("first.event_time").alias("started_at"),
        event_instant("last.event_time").alias("ended_at"),
        (ended_ms - started_ms).alias("duration_ms"),
        "event_count",
        F.col("last.event_type").alias("last_event_type"),
        F.col("session.end").alias("closed_at"),
    )
    return {"session_windows": rows}
