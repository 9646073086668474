"""The operators of ``event_windows``: a sliding and a tumbling window aggregation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from stateward.runtime.api.row_table import NUMBER
from stateward.runtime.query.native_query import row_id

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from stateward.runtime.api.config import Config


def plan(events: DataFrame, config: Config) -> dict[str, DataFrame]:
    """The rows of each table; a window's are there once the watermark has reached its end."""
    size, slide = (f"{config.logic[name]} milliseconds" for name in ("size_ms", "slide_ms"))
    sliding = events.groupBy("user_id", F.window("event_time", size, slide)).agg(
        F.count("*").alias("event_count"),
        # Of decimals a sum is exact, so it does not depend on the order of arrival.
        F.sum("value").cast(NUMBER).alias("value_sum"),
        F.min("value").alias("value_min"),
        F.max("value").alias("value_max"),
    )
    tumbling = events.groupBy("user_id", F.window("event_time", size)).agg(
        F.count("*").alias("event_count"),
        F.array_sort(F.collect_set("event_type")).alias("event_types"),
    )
    return {
        "event_windows_sliding": sliding.select(
            *window_columns(), "event_count", "value_sum", "value_min", "value_max"
        ),
        "event_windows_tumbling": tumbling.select(*window_columns(), "event_count", "event_types"),
    }


def window_columns() -> list[Column]:
    """Identity, user, start and end of a window."""
    start, end = F.col("window.start"), F.col("window.end")
    identity = row_id("user_id", F.unix_millis(start), F.unix_millis(end))
    return [
        identity.alias("window_id"),
        F.col("user_id"),
        start.alias("window_start"),
        end.alias("window_end"),
    ]
