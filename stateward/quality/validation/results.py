"""The table `quality_results`: one row per expectation per validation, appended once per run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from stateward.quality.validation.expectations import Outcome
    from stateward.quality.validation.records import Validation

TEXT, WHOLE, REAL, TRUTH, TIME = "text", "whole", "real", "truth", "time"
_FIELDS = {
    "stream": TEXT,
    "table": TEXT,
    "table_id": TEXT,
    "table_version": WHOLE,
    "run_id": TEXT,
    "suite": TEXT,
    "name": TEXT,
    "expectation": TEXT,
    "column": TEXT,
    "success": TRUTH,
    "severity": TEXT,
    "observed_value": TEXT,
    "unexpected_count": WHOLE,
    "unexpected_percent": REAL,
    "failing_rows_sample": TEXT,
    "validated_at": TIME,
    "docs_path": TEXT,
    "from_version": WHOLE,
    "scope": TEXT,
    "as_of": TIME,
    "arguments": TEXT,
    "masked_columns": TEXT,
    "means": TEXT,
    "remedy": TEXT,
}
SAMPLE_ROWS = 5


def sample_of(breaking: DataFrame | None) -> str | None:
    """Return up to five of the rows as a JSON list, the same each time, or None when there is no frame."""
    if breaking is None:
        return None
    texts = breaking.selectExpr("to_json(struct(*)) AS row").orderBy("row").limit(SAMPLE_ROWS).collect()
    return json.dumps([json.loads(row[0]) for row in texts], ensure_ascii=False)


def write_results(
    uri: str,
    validation: Validation,
    outcomes: Iterable[tuple[Outcome, str | None]],
    docs_path: str,
    masked: Collection[str],
) -> None:
    """Append the outcomes, with their failing rows, to the Delta table at `uri`, once per `run_id`.

    Args:
        uri: the table `quality_results`.
        validation: what was validated.
        outcomes: each with a sample of its failing rows, as JSON.
        docs_path: its page below the folder of Data Docs.
        masked: columns whose values are masked in the results.
    """
    columns = json.dumps(sorted(masked))
    rows = [
        {**_row(validation, outcome, sample, docs_path), "masked_columns": columns}
        for outcome, sample in outcomes
    ]
    append_once(uri, _FIELDS, rows, f"quality/{validation.stream}/{validation.table}/{validation.run_id}")


def _row(validation: Validation, outcome: Outcome, sample: str | None, docs_path: str) -> dict[str, Any]:
    expectation = outcome.expectation
    return {
        "stream": validation.stream,
        "table": validation.table,
        "table_id": validation.table_id,
        "table_version": validation.version,
        "run_id": validation.run_id,
        "suite": validation.suite,
        "name": expectation.name,
        "expectation": expectation.type,
        "column": expectation.column,
        "success": outcome.success,
        "severity": expectation.severity,
        "observed_value": outcome.observed,
        "unexpected_count": outcome.unexpected_count,
        "unexpected_percent": outcome.unexpected_percent,
        "failing_rows_sample": sample,
        "validated_at": validation.validated_at,
        "docs_path": docs_path,
        "from_version": validation.from_version,
        "scope": expectation.scope,
        "as_of": validation.as_of,
        "arguments": json.dumps(outcome.kwargs, sort_keys=True, ensure_ascii=False),
        "means": expectation.means,
        "remedy": expectation.remedy,
    }


def append_once(uri: str, fields: Mapping[str, str], rows: Iterable[Mapping[str, Any]], app_id: str) -> None:
    """Append rows to the table at `uri`, unless rows with this `app_id` have been appended.

    A table of an earlier release gets the missing columns.

    Args:
        uri: the table; created if necessary, partitioned by stream.
        fields: the kind of each field.
        rows: the rows, with all fields.
        app_id: transaction id of the rows.
    """
    # deltalake, not Spark: it commits a few rows in a tenth of a second instead of four seconds.
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    if DeltaTable.is_deltatable(uri) and DeltaTable(uri).transaction_version(app_id) is not None:
        return
    write_deltalake(
        uri,
        pa.Table.from_pylist([dict(row) for row in rows], schema=_schema(fields)),
        mode="append",
        partition_by=["stream"],
        schema_mode="merge",
        # Makes a second writer of the same run fail instead of appending twice.
        commit_properties=CommitProperties(app_transactions=[Transaction(app_id, 1)]),
    )


def _schema(fields: Mapping[str, str]) -> pa.Schema:
    import pyarrow as pa

    types = {
        TEXT: pa.string(),
        WHOLE: pa.int64(),
        REAL: pa.float64(),
        TRUTH: pa.bool_(),
        TIME: pa.timestamp("us", tz="UTC"),
    }
    return pa.schema([(name, types[kind]) for name, kind in fields.items()])
