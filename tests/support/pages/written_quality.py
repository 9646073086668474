"""Writes validations and reconciliations as they are written down, for tests of the quality pages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from stateward.pages.quality.history import NOT_NULL, ROW_COUNT, Name
from stateward.project.layout import Layout
from stateward.project.settings import Settings

_TIME = pa.timestamp("us", tz="UTC")


def _schema(
    *, text: str, whole: str = "", time: str, truth: str = "", **others: pa.DataType
) -> dict[str, Any]:
    """The columns of a table by kind, their names apart by spaces."""
    kinds = ((text, pa.string()), (whole, pa.int64()), (time, _TIME), (truth, pa.bool_()))
    return {name: kind for names, kind in kinds for name in names.split()} | others


SCHEMAS: dict[str, dict[str, pa.DataType]] = {
    "quality_validations": _schema(
        text="stream table table_id run_id repeats suite docs_path",
        whole="from_version table_version rows table_rows expectations failed failed_critical",
        time="validated_at",
    ),
    "quality_results": _schema(
        text="stream table run_id suite name expectation column severity observed_value docs_path"
        " masked_columns means remedy",
        whole="from_version table_version unexpected_count",
        time="validated_at",
        truth="success",
        unexpected_percent=pa.float64(),
    ),
    "quarantine": _schema(
        text="stream table run_id suite name severity row row_hash origin masked_columns",
        time="quarantined_at",
    ),
    "reconciliations": _schema(
        text="stream table run_id",
        whole="rows_compared rows_different rows_wrong",
        time="range_from range_to reconciled_at",
        truth="equal",
        notes=pa.list_(pa.string()),
    ),
}


@dataclass(frozen=True)
class Broken:
    """An expectation that fails.

    Attributes:
        rows: Which rows break it; empty for a finding about the table.
        count: How many do.
    """

    expectation: str
    observed: str
    rows: tuple[dict[str, Any], ...] = ()
    origins: tuple[dict[str, Any], ...] = ()
    count: int | None = None
    percent: float | None = None


@dataclass
class Written:
    """Rows of the tables, and where they are put."""

    settings: Settings
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {name: [] for name in SCHEMAS})

    def validation(
        self,
        name: Name,
        suite: Mapping[str, tuple[str, str, str | None]],
        at: datetime,
        versions: tuple[int, int],
        counts: tuple[int, int],
        *,
        broken: tuple[Broken, ...] = (),
        has_page: bool = True,
    ) -> None:
        """Add a validation with its results.

        Args:
            name: The table.
            suite: Type, severity and column of each expectation.
            at: When.
            versions: The first and the last that it covers.
            counts: Rows that it looked at, and rows of the table.
            broken: What fails.
            has_page: Whether its page of Data Docs is still there.
        """
        run_id = f"quality_{name.stream}/scheduled__{at:%Y-%m-%dT%H:%M:%S}+00:00/1"
        run = f"{name.stream}_v{versions[0]}-{versions[1]}_manual__1"
        docs_path = f"validations/{name.table}/{run}/{at:%Y%m%dT%H%M%S}Z/page.html"
        if has_page:
            page = Path(Layout.of(self.settings).data_docs_uri.removeprefix("file://")) / docs_path
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text("<h1>a report</h1>")
        shared = {
            "stream": name.stream,
            "table": name.table,
            "run_id": run_id,
            "suite": name.table,
            "validated_at": at,
            "from_version": versions[0],
            "table_version": versions[1],
            "docs_path": docs_path,
        }
        fails = {one.expectation: one for one in broken}
        critical = sum(suite[one][1] == "critical" for one in fails)
        self.rows["quality_validations"].append(
            {
                **shared,
                "table_id": "t",
                "rows": counts[0],
                "table_rows": counts[1],
                "expectations": len(suite),
                "failed": len(fails),
                "failed_critical": critical,
            }
        )
        for expectation, (kind, severity, column) in suite.items():
            one = fails.get(expectation)
            self.rows["quality_results"].append(
                {
                    **shared,
                    "name": expectation,
                    "expectation": kind,
                    "column": column,
                    "severity": severity,
                    "success": one is None,
                    "observed_value": one.observed if one else "no unexpected rows",
                    "unexpected_count": one.count if one else None if kind == ROW_COUNT else 0,
                    "unexpected_percent": one.percent if one else 0.0 if column else None,
                    "masked_columns": '["user_id"]',
                }
            )
        for one in broken:
            self._quarantine(one, shared, suite[one.expectation][1])

    def _quarantine(self, broken: Broken, shared: Mapping[str, Any], severity: str) -> None:
        origins = broken.origins or ({"commits": [], "events": None},)
        for number, row in enumerate(broken.rows or (None,)):
            self.rows["quarantine"].append(
                {
                    **{key: shared[key] for key in ("stream", "table", "run_id", "suite")},
                    "name": broken.expectation,
                    "severity": severity,
                    "row": None if row is None else json.dumps(row),
                    "row_hash": None if row is None else f"hash-{number}",
                    "origin": json.dumps(origins[number % len(origins)]),
                    "quarantined_at": shared["validated_at"],
                    "masked_columns": '["user_id"]',
                }
            )

    def reconciliation(
        self, name: Name, at: datetime, counts: tuple[int, int, int], notes: tuple[str, ...] = ()
    ) -> None:
        """Add a reconciliation; rows compared, different and wrong."""
        end = at.replace(hour=0, minute=0, second=0, microsecond=0)
        self.rows["reconciliations"].append(
            {
                "stream": name.stream,
                "table": name.table,
                "run_id": f"reconcile_{name.stream}/scheduled__{at:%Y-%m-%dT%H:%M:%S}+00:00/1",
                "range_from": end - timedelta(days=1),
                "range_to": end,
                "reconciled_at": at,
                "rows_compared": counts[0],
                "rows_different": counts[1],
                "rows_wrong": counts[2],
                "equal": not counts[1],
                "notes": list(notes),
            }
        )

    def save(self) -> None:
        """Append what was added to the Delta tables."""
        for table, rows in self.rows.items():
            if rows:
                whole = [{name: row.get(name) for name in SCHEMAS[table]} for row in rows]
                data = pa.Table.from_pylist(whole, schema=pa.schema(list(SCHEMAS[table].items())))
                uri = Layout.of(self.settings).table_uri(table)
                write_deltalake(uri, data, mode="append", partition_by=["stream"])
                rows.clear()


def suite_of(columns: tuple[str, ...], **others: tuple[str, str]) -> dict[str, tuple[str, str, str | None]]:
    """Type, severity and column of each expectation: rows, no nulls in the columns, and others."""
    return {
        "table_has_rows": (ROW_COUNT, "warn", None),
        **{f"{column}_is_present": (NOT_NULL, "critical", column) for column in columns},
        **{name: (kind, severity, None) for name, (kind, severity) in others.items()},
    }
