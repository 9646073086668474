"""The newest state of every key, read from a checkpoint with plain SQL, also while the stream runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from stateward.runtime.driver.session import start_coordinator
from stateward.runtime.keyed.state_log import LOG_NAME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def keyed_state(spark: SparkSession, checkpoint_uri: str, batch_id: int | None = None) -> DataFrame:
    """States as of a committed batch.

    Args:
        spark: A session; it need not be the one that runs the stream.
        checkpoint_uri: The checkpoint of one generation, such as the status names.
        batch_id: A retained batch, or None for the newest.

    Returns:
        ``bucket int, key string, seq bigint, state string``: a row per key, its state as JSON (`codec`).
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
