"""The table `quality_validations`: one row per validation, with all of its inputs.

The next validation starts where it ends, later ones take from it what is usual, and a validation of the same
range can be repeated exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stateward.quality.suites.baseline import BaselineBounds, PastValidation
from stateward.quality.tables.version_range import Pin, Span, covered
from stateward.quality.validation.results import REAL, TEXT, TIME, TRUTH, WHOLE, append_once

if TYPE_CHECKING:
    from datetime import datetime

    from stateward.quality.validation.expectations import Outcome

_FIELDS = {
    "stream": TEXT,
    "table": TEXT,
    "table_id": TEXT,
    "from_version": WHOLE,
    "table_version": WHOLE,
    "covered_version": WHOLE,
    "run_id": TEXT,
    "repeats": TEXT,
    "suite": TEXT,
    "suite_digest": TEXT,
    "as_of": TIME,
    "validated_at": TIME,
    "is_range": TRUTH,
    "rows": WHOLE,
    "table_rows": WHOLE,
    "seconds": REAL,
    "reads": TEXT,
    "baseline": TEXT,
    "distributions": TEXT,
    "expectations": WHOLE,
    "failed": WHOLE,
    "failed_critical": WHOLE,
    "passed": TRUTH,
    "docs_path": TEXT,
}


@dataclass(frozen=True)
class Validation:
    """One run of a suite on a range of a table's versions.

    Attributes:
        table_id: Delta's identifier of the table, which changes when it is dropped and created again.
        from_version: the first Delta version of the range; 0 when it is the table's first validation.
        version: the last one, at which the table was read.
        run_id: name of this validation; its results are written once, however often it is retried.
        suite_digest: hash of the suite's expectations.
        as_of: the instant of the validation, UTC.
        validated_at: when it ran, UTC.
        is_range: whether only rows of the range were validated; otherwise the whole table.
        rows: number of rows in the range.
        table_rows: number of rows in the whole table.
        seconds: from the commit before the range to its last one.
        reads: the other tables it read.
        baseline: what expectations with a baseline were evaluated against.
        repeats: run id of the validation that it repeats, if it does.
    """

    stream: str
    table: str
    table_id: str
    from_version: int
    version: int
    run_id: str
    suite: str
    suite_digest: str
    as_of: datetime
    validated_at: datetime
    is_range: bool
    rows: int
    table_rows: int
    seconds: float
    reads: dict[str, Pin]
    baseline: dict[str, BaselineBounds]
    repeats: str | None = None


class Records:
    """The validations of one table of one stream, from `quality_validations`."""

    def __init__(self, uri: str, stream: str, table: str) -> None:
        from deltalake import DeltaTable

        self.stream = stream
        self._uri = uri
        self._rows: list[dict[str, Any]] = []
        if DeltaTable.is_deltatable(uri):
            filters = [("stream", "=", stream), ("table", "=", table)]
            self._rows = DeltaTable(uri).to_pyarrow_table(filters=filters).to_pylist()

    def done(self) -> list[tuple[str, int, int]]:
        """Return table, first and last version of each."""
        return [(row["table_id"], row["from_version"], row["table_version"]) for row in self._rows]

    def of_range(self, span: Span, suite: str) -> dict[str, Any] | None:
        """Return the first validation of exactly this range by this suite, if there is one."""
        same = [
            row
            for row in self._rows
            if (row["table_id"], row["from_version"], row["table_version"])
            == (span.table_id, span.first, span.last)
            and row["suite"] == suite
            and row["repeats"] is None
        ]
        return min(same, key=lambda row: row["validated_at"], default=None)

    def before(self, span: Span) -> list[PastValidation]:
        """Return the findings in the versions before a range, the newest first, each version once."""
        rows = [row for row in self._rows if row["table_id"] == span.table_id and row["repeats"] is None]
        rows.sort(
            key=lambda row: (-row["table_version"], row["from_version"], -row["validated_at"].timestamp())
        )
        found, lowest = [], span.first
        for row in rows:
            if row["table_version"] < lowest:
                lowest = row["from_version"]
                found.append(_past(row))
        return found

    def write(self, validation: Validation, outcomes: Sequence[Outcome], docs_path: str) -> None:
        """Append a validation, once per `run_id`."""
        mine = (validation.table_id, validation.from_version, validation.version)
        spans = [(first, last) for found, first, last in [*self.done(), mine] if found == validation.table_id]
        app_id = f"quality/{validation.stream}/{validation.table}/{validation.run_id}"
        append_once(self._uri, _FIELDS, [_row(validation, outcomes, covered(spans), docs_path)], app_id)


def pins_of(record: dict[str, Any]) -> dict[str, Pin]:
    """Return the other tables that a recorded validation read."""
    return {name: Pin(**pin) for name, pin in json.loads(record["reads"]).items()}


def baseline_of(record: dict[str, Any]) -> dict[str, BaselineBounds]:
    """Return what a recorded validation evaluated its expectations against."""
    return {name: BaselineBounds(**bounds) for name, bounds in json.loads(record["baseline"]).items()}


def _past(row: dict[str, Any]) -> PastValidation:
    return PastValidation(
        version=row["table_version"],
        passed=row["passed"],
        rows=row["rows"],
        seconds=row["seconds"],
        distributions=json.loads(row["distributions"]),
    )


def _row(
    validation: Validation, outcomes: Sequence[Outcome], covered_version: int, docs_path: str
) -> dict[str, Any]:
    failed = [outcome.expectation.severity for outcome in outcomes if not outcome.success]
    return {
        "stream": validation.stream,
        "table": validation.table,
        "table_id": validation.table_id,
        "from_version": validation.from_version,
        "table_version": validation.version,
        "covered_version": covered_version,
        "run_id": validation.run_id,
        "repeats": validation.repeats,
        "suite": validation.suite,
        "suite_digest": validation.suite_digest,
        "as_of": validation.as_of,
        "validated_at": validation.validated_at,
        "is_range": validation.is_range,
        "rows": validation.rows,
        "table_rows": validation.table_rows,
        "seconds": validation.seconds,
        "reads": _json({name: vars(pin) for name, pin in validation.reads.items()}),
        "baseline": _json({name: vars(bounds) for name, bounds in validation.baseline.items()}),
        "distributions": _json(_distributions(validation, outcomes)),
        "expectations": len(outcomes),
        "failed": len(failed),
        "failed_critical": failed.count("critical"),
        "passed": not failed,
        "docs_path": docs_path,
    }


def _distributions(validation: Validation, outcomes: Iterable[Outcome]) -> dict[str, Any]:
    return {
        outcome.expectation.name: {**outcome.partition, "rows": validation.rows}
        for outcome in outcomes
        if outcome.partition is not None
    }


def _json(value: object) -> str:
    # Great Expectations returns numpy's numbers.
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=float)
