"""The operator of the optional table ``event_windows_ordered``: the events of a tumbling window, in order.

In a module of its own, because the operators of `plan` belong to the checkpoints of streams without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spark_jobs.event_windows.plan import window_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from stateward.runtime.api.config import Config


def ordered(events: DataFrame, config: Config) -> DataFrame:
    """The rows of the table.

    ``collect_list`` alone is in the order of arrival, which differs between runs. A struct is sorted by its
    fields: event time, then id.
    """
    size = f"{config.logic['size_ms']} milliseconds"
    event = F.struct("event_time", "event_id", "event_type")
    windows = events.groupBy("user_id", F.window("event_time", size)).agg(
        F.count("*").alias("event_count"), F.array_sort(F.collect_list(event)).alias("events")
    )
    return windows.select(
        *window_columns(),
        "event_count",
        F.col("events.event_type").alias("event_types"),
        F.col("events.event_id").alias("event_ids"),
    )
