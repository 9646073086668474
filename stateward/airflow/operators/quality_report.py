"""The results of a validation, read from `quality_results`, and the link to its report."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from stateward.alerts.table_incident import FailedExpectation, Judged
from stateward.contract.names import QUALITY_RESULTS, QUALITY_VALIDATIONS
from stateward.project.layout import Layout
from stateward.rendering import page_address


@dataclass(frozen=True)
class QualityReport:
    """The results of one validation.

    Attributes:
        from_version: the first Delta version that was validated.
        version: the last one.
        expectations: how many were evaluated.
        failed: those that failed, the critical ones first.
        docs_path: the report's page below the Data Docs folder.
    """

    stream: str
    table: str
    from_version: int
    version: int
    expectations: int
    failed: tuple[FailedExpectation, ...]
    docs_path: str

    @property
    def critical(self) -> tuple[FailedExpectation, ...]:
        """Failed expectations that hold back downstream DAGs."""
        return tuple(item for item in self.failed if item.severity == "critical")

    def judged(self, at: datetime) -> Judged:
        """Return it for incidents, if it is the newest one; `at` is the time, aware."""
        return Judged(self.stream, self.table, self.version, self.expectations, self.failed, at)

    @property
    def address(self) -> str:
        """The report's page below Airflow's base URL."""
        return page_address.report(self.docs_path)

    def message(self, airflow_url: str) -> str:
        """Describe the failed expectations, with links."""
        lines = [
            f"{self.stream}: {len(self.failed)} of {self.expectations} expectations fail for"
            f" {self.table}, versions {self.from_version} to {self.version}.",
            *(f"  - {item.name} ({item.severity}): {item.observed}" for item in self.failed),
            f"Report: {page_address.public(airflow_url, self.address)}",
            "The page of the suite, linked from the report, says what each of them means and what to do.",
            "The stream keeps running."
            + (f" DAGs scheduled on {self.stream}.{self.table}.valid do not start." if self.critical else ""),
        ]
        return "\n".join(lines)


def read_report(layout: Layout, stream: str, table: str, run_id: str) -> QualityReport | None:
    """Return the report of validation `run_id` of a table, or None when it did not come to its end."""
    from deltalake import DeltaTable

    results_uri, validations_uri = map(layout.table_uri, (QUALITY_RESULTS, QUALITY_VALIDATIONS))
    if not all(map(DeltaTable.is_deltatable, (results_uri, validations_uri))):
        return None
    mine = [("stream", "=", stream), ("table", "=", table), ("run_id", "=", run_id)]
    # A validation writes its row there last; without it the next one covers the same versions.
    if not DeltaTable(validations_uri).to_pyarrow_table(filters=mine, columns=["run_id"]).num_rows:
        return None
    results = DeltaTable(results_uri)
    if "from_version" not in {field.name for field in results.schema().fields}:
        return None  # nothing was written to it since an earlier release
    rows = results.to_pyarrow_table(
        filters=mine,
        columns=[
            "from_version",
            "table_version",
            "name",
            "severity",
            "success",
            "observed_value",
            "docs_path",
        ],
    ).to_pylist()
    if not rows:
        return None
    failed = [
        FailedExpectation(row["name"], row["severity"], row["observed_value"])
        for row in rows
        if not row["success"]
    ]
    order = ("critical", "warn")
    return QualityReport(
        stream=stream,
        table=table,
        from_version=rows[0]["from_version"],
        version=rows[0]["table_version"],
        expectations=len(rows),
        failed=tuple(sorted(failed, key=lambda item: (order.index(item.severity), item.name))),
        docs_path=rows[0]["docs_path"],
    )
