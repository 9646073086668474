"""Reads the newest state of every key from a checkpoint with plain SQL, also while the stream runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from stateward.runtime.keyed.state_log import LOG_NAME
from stateward.runtime.session import start_coordinator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def keyed_state(spark: SparkSession, checkpoint_uri: str, batch_id: int | None = None) -> DataFrame:
    """Read the states after a committed batch.

    Args:
        spark: Any session; not necessarily that of the stream.
        checkpoint_uri: The checkpoint of one generation, as in the status document.
        batch_id: A retained batch, or None for the newest.

    Returns:
        ``bucket int, key string, seq bigint, state string``: one row per key with its state as JSON
        (`codec`).
    """
    start_coordinator(spark)
    reader = spark.read.format("statestore").option("stateVarName", LOG_NAME)
    if batch_id is not None:
        reader = reader.option("batchId", str(batch_id))
    entries = reader.load(checkpoint_uri).selectExpr(
        "key.bucket AS bucket",
        "user_map_key.seq AS seq",
        "explode(from_json(CAST(user_map_value.entries AS STRING), 'map<string, string>')) AS (key, state)",
    )
    return (
        entries.groupBy("bucket", "key")
        .agg(F.max(F.struct("seq", "state")).alias("newest"))
        .where("newest.state IS NOT NULL")
        .select("bucket", "key", "newest.seq", "newest.state")
    )
