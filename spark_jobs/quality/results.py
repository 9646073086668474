"""The table `quality_results`: one row per expectation per validation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from spark_jobs.quality.expectations import Outcome

_SCHEMA = {
    "stream": "text",
    "table": "text",
    "table_id": "text",
    "table_version": "whole",
    "run_id": "text",
    "suite": "text",
    "name": "text",
    "expectation": "text",
    "column": "text",
    "success": "truth",
    "severity": "text",
    "observed_value": "text",
    "unexpected_count": "whole",
    "unexpected_percent": "real",
    "failing_rows_sample": "text",
    "validated_at": "time",
    "docs_path": "text",
}
SAMPLE_ROWS = 5


@dataclass(frozen=True)
class Validation:
    """One run of a suite on a range of a table's versions.

    Attributes:
        table_id: the table's own identifier, which changes when it is dropped and created again.
        from_version: the first Delta version of the range; 0 when it is the table's first validation.
        version: the last one, at which the table was read.
        as_of: what counted as now, UTC.
        run_id: names this validation; its results are written once, however often it is tried.
        validated_at: when, UTC.
    """

    stream: str
    table: str
    table_id: str
    from_version: int
    version: int
    run_id: str
    suite: str
    as_of: datetime
    validated_at: datetime


def sample_of(breaking: DataFrame | None) -> str | None:
    """Return up to five of the rows as a JSON list, or None when there is no frame."""
    if breaking is None:
        return None
    rows = breaking.limit(SAMPLE_ROWS).selectExpr("to_json(struct(*)) AS row").collect()
    return json.dumps([json.loads(row[0]) for row in rows], ensure_ascii=False)


def write_results(
    uri: str, validation: Validation, outcomes: list[tuple[Outcome, str | None]], docs_path: str
) -> None:
    """Append the outcomes, with their failing rows, to the Delta table at `uri`, once per `run_id`."""
    # deltalake and not Spark: a few rows are committed in a tenth of a second instead of four.
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    app_id = f"quality/{validation.stream}/{validation.table}/{validation.run_id}"
    if DeltaTable.is_deltatable(uri) and DeltaTable(uri).transaction_version(app_id) is not None:
        return
    rows = [
        dict(zip(_SCHEMA, _values(validation, outcome, sample, docs_path), strict=True))
        for outcome, sample in outcomes
    ]
    write_deltalake(
        uri,
        pa.Table.from_pylist(rows, schema=pa.schema(_arrow_fields())),
        mode="append",
        partition_by=["stream"],
        # Makes a second writer of the same run fail instead of appending twice.
        commit_properties=CommitProperties(app_transactions=[Transaction(app_id, 1)]),
    )


def _arrow_fields() -> list[tuple[str, pa.DataType]]:
    import pyarrow as pa

    types = {
        "text": pa.string(),
        "whole": pa.int64(),
        "real": pa.float64(),
        "truth": pa.bool_(),
        "time": pa.timestamp("us", tz="UTC"),
    }
    return [(name, types[kind]) for name, kind in _SCHEMA.items()]


def _values(
    validation: Validation, outcome: Outcome, sample: str | None, docs_path: str
) -> tuple[object, ...]:
    expectation = outcome.expectation
    return (
        validation.stream,
        validation.table,
        validation.table_id,
        validation.version,
        validation.run_id,
        validation.suite,
        expectation.name,
        expectation.type,
        expectation.column,
        outcome.success,
        expectation.severity,
        outcome.observed,
        outcome.unexpected_count,
        outcome.unexpected_percent,
        sample,
        validation.validated_at,
        docs_path,
    )
