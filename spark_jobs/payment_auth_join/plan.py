"""The operators of ``payment_auth_join``: a left outer join within a range of time, then the first match."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spark_jobs.payment_auth_join.model import AUTHENTICATED, TRANSACTION
from stateward.runtime.query.native_query import event_instant, row_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from stateward.runtime.api.config import Config


def plan(events: DataFrame, config: Config) -> dict[str, DataFrame]:
    """The rows of the table; a transaction's is there once no authentication can come any more."""
    before, after = (
        F.expr(f"INTERVAL {config.logic[name]} MILLISECONDS") for name in ("before_ms", "after_ms")
    )
    transactions = events.filter(F.col("kind") == TRANSACTION)
    authentications = events.filter(F.col("kind") == AUTHENTICATED).select(
        F.col("account_id").alias("owner_id"),
        F.col("event_id").alias("authentication_id"),
        F.col("event_time").alias("authentication_time"),
    )
    matches = transactions.join(
        authentications,
        (F.col("account_id") == F.col("owner_id"))
        & (F.col("authentication_time") >= F.col("event_time") - before)
        & (F.col("authentication_time") <= F.col("event_time") + after),
        "left_outer",
    ).select(
        "account_id",
        "event_id",
        "event_time",
        "amount",
        F.struct(event_instant("authentication_time").alias("at"), "authentication_id").alias("match"),
    )
    # All matches of a transaction have its time, so the watermark that has passed it closes the group.
    first = matches.groupBy("account_id", "event_id", "event_time", "amount").agg(
        F.min("match").alias("match")
    )
    rows = first.select(
        row_id("account_id", "event_id").alias("payment_id"),
        "account_id",
        F.col("event_id").alias("transaction_id"),
        event_instant("event_time").alias("transaction_at"),
        "amount",
        F.col("match.authentication_id").alias("authentication_id"),
        F.col("match.at").alias("authenticated_at"),
    )
    return {"payment_authentications": rows}
