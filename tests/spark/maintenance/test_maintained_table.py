"""What `deltalake` maintains, Spark reads: its checkpoints, its cleaned logs, the transactions in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import SparkSession

from stateward.maintenance.maintain import Task, maintain
from stateward.maintenance.policy import Policy
from stateward.maintenance.retention import Need

pytestmark = pytest.mark.spark

AT_ONCE = Policy.model_construct(history=timedelta(0), small_files=4)
PINNED, BATCHES = 5, 12


def maintained(folder: Path, *needs: Need) -> tuple[str, set[str]]:
    """A table of which everything is gone that may go, and what is left of its log."""
    uri = f"file://{folder}/visits"
    schema = pa.schema([("n", pa.int64())])
    DeltaTable.create(uri, schema, configuration={**AT_ONCE.properties, "delta.checkpointInterval": "5"})
    for n in range(BATCHES):
        commit = CommitProperties(app_transactions=[Transaction("g:visits", n)])
        write_deltalake(uri, pa.table({"n": [n]}), mode="append", commit_properties=commit)
    task = Task("visits", uri, AT_ONCE, needs)
    for _ in range(2):
        maintain(task, now=datetime.now(UTC), dry_run=False, report=lambda step, what: None)
    return uri, {path.name for path in Path(folder, "visits", "_delta_log").iterdir()}


def test_spark_reads_it_and_knows_the_batches_whose_entries_are_gone(
    spark: SparkSession, tmp_path: Path
) -> None:
    uri, log = maintained(tmp_path)
    assert f"{BATCHES:020d}.json" not in log, "or there is nothing to be shown"
    assert spark.read.format("delta").load(uri).count() == BATCHES

    again = spark.createDataFrame([(BATCHES - 1,)], "n long").write.format("delta").mode("append")
    again.option("txnAppId", "g:visits").option("txnVersion", BATCHES - 1).save(uri)

    assert spark.read.format("delta").load(uri).count() == BATCHES, "the batch was written before"


def test_spark_reads_a_version_that_is_older_than_the_history_if_it_is_told_to(
    spark: SparkSession, tmp_path: Path
) -> None:
    uri, _ = maintained(tmp_path, Need(PINNED, "a savepoint"))

    def rows() -> int:
        return spark.read.format("delta").option("versionAsOf", PINNED).load(uri).count()

    with pytest.raises(Exception, match="DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION"):
        rows()
    name = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
    spark.conf.set(name, "false")
    try:
        assert rows() == PINNED
    finally:
        spark.conf.unset(name)
