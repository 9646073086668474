"""The table `quality_results`: one row per expectation per validation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.quality.failing_rows import BATCH, failing_rows_query

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.quality.expectations import Outcome

SCHEMA = """
    stream string, table string, table_id string, table_version bigint, run_id string, suite string, name string,
    expectation string, column string, success boolean, severity string, observed_value string,
    unexpected_count bigint, unexpected_percent double, failing_rows_sample string, validated_at timestamp,
    docs_path string
"""
SAMPLE_ROWS = 5
_VIEW = "stateward_validated_table"


@dataclass(frozen=True)
class Validation:
    """One run of a suite on one version of a table.

    Attributes:
        table_id: the table's own identifier, which changes when it is dropped and created again.
        version: the Delta version that was read.
        run_id: names this validation; its results are written once, however often it is tried.
        validated_at: when, UTC.
    """

    stream: str
    table: str
    table_id: str
    version: int
    run_id: str
    suite: str
    validated_at: datetime


def failing_rows(spark: SparkSession, frame: DataFrame, outcome: Outcome) -> str | None:
    """Return up to five rows of `frame` that break the expectation, as a JSON list, or None."""
    from pyspark.errors import AnalysisException

    query = failing_rows_query(outcome.expectation)
    if outcome.success or query is None:
        return None
    frame.createOrReplaceTempView(_VIEW)
    try:
        rows = spark.sql(query.replace(BATCH, _VIEW)).limit(SAMPLE_ROWS).toJSON().collect()
    except AnalysisException:
        # The column itself is missing or of another type, which the outcome says already.
        return None
    return json.dumps([json.loads(row) for row in rows], ensure_ascii=False)


def write_results(
    spark: SparkSession,
    uri: str,
    validation: Validation,
    outcomes: list[tuple[Outcome, str | None]],
    docs_path: str,
) -> None:
    """Append the outcomes, with their failing rows, to the Delta table at `uri`, once per `run_id`."""
    rows = [
        (
            validation.stream,
            validation.table,
            validation.table_id,
            validation.version,
            validation.run_id,
            validation.suite,
            outcome.expectation.name,
            outcome.expectation.type,
            outcome.expectation.column,
            outcome.success,
            outcome.expectation.severity,
            outcome.observed,
            outcome.unexpected_count,
            outcome.unexpected_percent,
            sample,
            validation.validated_at,
            docs_path,
        )
        for outcome, sample in outcomes
    ]
    (
        spark.createDataFrame(rows, SCHEMA)
        .coalesce(1)
        .write.format("delta")
        .mode("append")
        .partitionBy("stream")
        .option("txnAppId", f"quality/{validation.stream}/{validation.table}/{validation.run_id}")
        .option("txnVersion", "1")
        .save(uri)
    )
