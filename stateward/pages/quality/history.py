"""Results of validations and reconciliations, as plain values. Pure.

Their tables gain columns from release to release. A row without an essential column is skipped; another
missing column is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

NOT_NULL = "expect_column_values_to_not_be_null"
ROW_COUNT = "expect_table_row_count_to_be_between"


class Name(NamedTuple):
    """A table, by the stream that writes it."""

    stream: str
    table: str


@dataclass(frozen=True)
class Validation:
    """One validation of one table.

    Attributes:
        at: When it was made.
        from_version: The first version it covers; None if unknown.
        version: The last one.
        rows: Rows of the range.
        table_rows: Rows of the whole table.
        docs_path: Its page below the Data Docs folder.
    """

    name: Name
    run_id: str
    at: datetime
    version: int
    expectations: int
    failed: int
    failed_critical: int
    table_id: str = ""
    from_version: int | None = None
    rows: int | None = None
    table_rows: int | None = None
    docs_path: str = ""

    @property
    def level(self) -> str:
        """Its level: good, warn or bad."""
        if self.failed_critical:
            return "bad"
        return "warn" if self.failed else "good"

    @property
    def pass_rate(self) -> float:
        """Share of expectations that passed, percent."""
        return 100 * (1 - self.failed / self.expectations) if self.expectations else 100.0


@dataclass(frozen=True)
class Result:
    """The result of one expectation in one validation.

    Attributes:
        expectation: Its name in the suite.
        kind: Its type.
        unexpected_percent: Share of unexpected rows; None if it is not about rows.
        is_masked: Whether its release masks personal columns and values derived from them.
    """

    name: Name
    run_id: str
    at: datetime
    version: int
    expectation: str
    severity: str
    held: bool
    kind: str = ""
    column: str = ""
    observed: str = ""
    unexpected_count: int | None = None
    unexpected_percent: float | None = None
    from_version: int | None = None
    docs_path: str = ""
    is_masked: bool = False

    @property
    def level(self) -> str:
        """Its level: good, warn or bad."""
        if self.held:
            return "good"
        return "bad" if self.severity == "critical" else "warn"


@dataclass(frozen=True)
class Reconciliation:
    """One comparison of a table with rows recomputed from the stream's events.

    Attributes:
        wrong: Rows that differ and can only be an error.
        at: When it was made.
    """

    name: Name
    run_id: str
    at: datetime
    range_from: datetime
    range_to: datetime
    compared: int
    different: int
    wrong: int
    notes: tuple[str, ...] = ()

    @property
    def level(self) -> str:
        """Its level: good, warn (rows differ, but may be right) or bad."""
        if self.wrong:
            return "bad"
        return "warn" if self.different else "good"


def validations_of(rows: Iterable[Mapping[str, Any]]) -> tuple[Validation, ...]:
    """Read rows of `quality_validations`, the oldest first; repeated validations are skipped."""
    found = [
        Validation(
            name=Name(row["stream"], row["table"]),
            run_id=row["run_id"],
            at=row["validated_at"],
            version=row["table_version"],
            expectations=row["expectations"],
            failed=row["failed"],
            failed_critical=row.get("failed_critical") or 0,
            table_id=row.get("table_id") or "",
            from_version=row.get("from_version"),
            rows=row.get("rows"),
            table_rows=row.get("table_rows"),
            docs_path=row.get("docs_path") or "",
        )
        for row in rows
        if row.get("repeats") is None
        and _has(row, "stream", "table", "run_id", "validated_at", "table_version", "expectations", "failed")
    ]
    return tuple(sorted(found, key=lambda one: one.at))


def results_of(rows: Iterable[Mapping[str, Any]]) -> tuple[Result, ...]:
    """Read rows of `quality_results`, the oldest first."""
    found = [
        Result(
            name=Name(row["stream"], row["table"]),
            run_id=row["run_id"],
            at=row["validated_at"],
            version=row["table_version"],
            expectation=row["name"],
            severity="warn" if row["severity"] in ("warning", "info") else row["severity"],
            held=row["success"],
            kind=row.get("expectation") or "",
            column=row.get("column") or "",
            observed=row.get("observed_value") or "",
            unexpected_count=row.get("unexpected_count"),
            unexpected_percent=row.get("unexpected_percent"),
            from_version=row.get("from_version"),
            docs_path=row.get("docs_path") or "",
            is_masked=row.get("masked_columns") is not None,
        )
        for row in rows
        if _has(
            row, "stream", "table", "run_id", "validated_at", "table_version", "name", "severity", "success"
        )
    ]
    return tuple(sorted(found, key=lambda one: one.at))


def reconciliations_of(rows: Iterable[Mapping[str, Any]]) -> tuple[Reconciliation, ...]:
    """Read rows of `reconciliations`, the oldest first."""
    found = [
        Reconciliation(
            name=Name(row["stream"], row["table"]),
            run_id=row["run_id"],
            at=row["reconciled_at"],
            range_from=row["range_from"],
            range_to=row["range_to"],
            compared=row.get("rows_compared") or 0,
            different=row["rows_different"],
            # An unknown verdict must not count as "may be right".
            wrong=row["rows_different"] if row.get("rows_wrong") is None else row["rows_wrong"],
            notes=tuple(row.get("notes") or ()),
        )
        for row in rows
        if _has(row, "stream", "table", "run_id", "reconciled_at", "range_from", "range_to", "rows_different")
    ]
    return tuple(sorted(found, key=lambda one: one.at))


def _has(row: Mapping[str, Any], *names: str) -> bool:
    return all(row.get(name) is not None for name in names)
