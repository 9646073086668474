"""Reads the data of the quality pages from Delta tables, bounded in time and rows."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import yaml

from stateward.contract.names import (
    QUALITY_RESULTS,
    QUALITY_VALIDATIONS,
    QUARANTINE,
    RECONCILIATIONS,
    SHARED_TABLES,
)
from stateward.contract.storage import exists
from stateward.control.reconcile.started_streams import was_started
from stateward.pages.access import MayRead, any_dag, stream_dag
from stateward.pages.quality.acknowledgement import Acknowledgement, read_acknowledgement
from stateward.pages.quality.failures import Failure, failures_of, latest_of
from stateward.pages.quality.history import (
    Name,
    Reconciliation,
    Result,
    Validation,
    reconciliations_of,
    results_of,
    validations_of,
)
from stateward.pages.quality.rows import SHOWN, Examples, examples_of
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import SHARED, StreamSpec, load_specs

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_LOG = logging.getLogger(__name__)

MOST_ROWS = 60_000
"""Rows that are read of each table at most, the newest."""

MOST_FAILURES = 12
"""Failures whose rows are read, the newest."""

_COLUMNS = {
    QUALITY_VALIDATIONS: (
        *("stream", "table", "table_id", "run_id", "repeats", "validated_at", "from_version"),
        *("table_version", "rows", "table_rows", "expectations", "failed", "failed_critical", "docs_path"),
    ),
    QUALITY_RESULTS: (
        *("stream", "table", "run_id", "validated_at", "from_version", "table_version", "name", "severity"),
        *("success", "expectation", "column", "observed_value", "unexpected_count", "unexpected_percent"),
        *("docs_path", "masked_columns"),
    ),
    RECONCILIATIONS: (
        *("stream", "table", "run_id", "reconciled_at", "range_from", "range_to"),
        *("rows_compared", "rows_different", "rows_wrong", "notes"),
    ),
}
_AT = {QUALITY_VALIDATIONS: "validated_at", QUALITY_RESULTS: "validated_at", RECONCILIATIONS: "reconciled_at"}


@dataclass(frozen=True)
class Words:
    """An expectation's texts in its suite."""

    means: str
    remedy: str


@dataclass(frozen=True)
class Found:
    """The data of the pages.

    Attributes:
        known: The tables with a suite, validated or not.
        owners: Owners of the streams, by stream.
        never_started: Streams without a first start.
        acknowledgements: What people said about tables with failures, and about the one table.
        validations: The oldest first.
        results: The oldest first; for all tables only the failed ones, for one table all.
        reconciliations: The oldest first.
        examples: Rows of the newest failures.
        kept: Existing pages of Data Docs, of the newest validations.
        words: Texts of one table's expectations, by name.
        missing: Tables of results that do not exist yet.
        problems: Errors of reading.
        dag_prefix: What the ids of DAGs begin with.
    """

    known: tuple[Name, ...] = ()
    owners: Mapping[str, str] = field(default_factory=dict)
    never_started: frozenset[str] = frozenset()
    acknowledgements: Mapping[Name, Acknowledgement] = field(default_factory=dict)
    validations: tuple[Validation, ...] = ()
    results: tuple[Result, ...] = ()
    reconciliations: tuple[Reconciliation, ...] = ()
    examples: Mapping[Result, Examples] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    words: Mapping[str, Words] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    dag_prefix: str = ""


def read_quality(
    settings: Settings, since: datetime, name: Name | None = None, *, readable: MayRead = any_dag
) -> Found:
    """Read the data of all tables, or of one.

    Args:
        settings: The installation's settings.
        since: The start of the time to read, aware.
        name: The one table; None for all.
        readable: Which DAGs the user may read; tables of other streams are skipped.
    """
    reading = _Reading(Layout.of(settings), since, name, readable)
    validations = validations_of(reading.rows(QUALITY_VALIDATIONS))
    results = results_of(reading.rows(QUALITY_RESULTS))
    reconciliations = reconciliations_of(reading.rows(RECONCILIATIONS))
    latest = latest_of(validations)
    failures = failures_of(results, latest)[:MOST_FAILURES]
    failing = {one for one, last in latest.items() if last.failed}
    specs = [spec for spec in load_specs(settings.streams)[0] if spec.quality]
    layout = Layout.of(settings)
    return Found(
        known=tuple(one for one in _known(specs) if readable(stream_dag(one.stream))),
        owners={spec.stream: spec.owner for spec in specs},
        never_started=frozenset(spec.stream for spec in specs if not was_started(layout, spec.stream)),
        acknowledgements=reading.acknowledgements({name} if name else failing),
        validations=validations,
        results=results,
        reconciliations=reconciliations,
        examples=reading.examples(failures),
        kept=reading.kept(validations),
        words=_words(settings, name.table) | reading.words(validations) if name else {},
        missing=tuple(reading.missing),
        problems=tuple(reading.problems),
        dag_prefix=settings.dag_prefix,
    )


class _Reading:
    """One read of the tables. Records missing and unreadable ones."""

    def __init__(self, layout: Layout, since: datetime, name: Name | None, readable: MayRead) -> None:
        self.missing: list[str] = []
        self.problems: list[str] = []
        self._layout = layout
        self._since = since
        self._name = name
        self._readable = readable

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the newest rows of a table."""
        import pyarrow.compute as pc

        condition = pc.field(_AT[table]) >= pc.scalar(self._since)
        if self._name is not None:
            condition &= (pc.field("stream") == self._name.stream) & (pc.field("table") == self._name.table)
        elif table == QUALITY_RESULTS:
            condition &= ~pc.field("success")
        found = self._read(table, _COLUMNS[table], condition, newest=_AT[table])
        return [row for row in found if self._readable(stream_dag(row["stream"]))]

    def _read(self, table: str, columns: Sequence[str], condition: Any, newest: str) -> list[dict[str, Any]]:
        from pyarrow.lib import ArrowException

        dataset = self._dataset(table)
        if dataset is None:
            return []
        there = [one for one in columns if one in dataset.schema.names]
        try:
            found = dataset.to_table(columns=there, filter=condition)
        except (ArrowException, OSError) as error:
            self._broken(table, error)
            return []
        ordered = found.sort_by([(newest, "descending")]).slice(0, MOST_ROWS)
        return list(ordered.to_pylist())

    def examples(self, failures: Iterable[Failure]) -> dict[Result, Examples]:
        """Return rows of each failure; rows with known events come first."""
        import pyarrow.compute as pc
        from pyarrow.lib import ArrowException

        dataset = self._dataset(QUARANTINE)
        found: dict[Result, Examples] = {}
        if dataset is None:
            return found
        traced = pc.coalesce(pc.match_substring(pc.field("origin"), '"events": {'), pc.scalar(False))
        for failure in failures:
            one = failure.newest
            mine = (
                (pc.field("stream") == one.name.stream)
                & (pc.field("table") == one.name.table)
                & (pc.field("run_id") == one.run_id)
                & (pc.field("name") == one.expectation)
            )
            try:
                entries = _first(dataset, mine & traced, SHOWN)
                if len(entries) < SHOWN:
                    entries += _first(dataset, mine & ~traced, SHOWN - len(entries))
            except (ArrowException, OSError) as error:
                self._broken(QUARANTINE, error)
                break
            found[one] = examples_of(entries)
        return found

    def words(self, validations: Sequence[Validation]) -> dict[str, Words]:
        """Return the texts of the newest validation's expectations; none for one of an earlier release."""
        import pyarrow.compute as pc

        if not validations:
            return {}
        rows = self._read(
            QUALITY_RESULTS,
            ("name", "means", "remedy", "validated_at"),
            pc.field("run_id") == validations[-1].run_id,
            newest="validated_at",
        )
        return {row["name"]: Words(row["means"], row["remedy"]) for row in rows if row.get("means")}

    def acknowledgements(self, names: Iterable[Name]) -> dict[Name, Acknowledgement]:
        """Return what people said about some tables."""
        found: dict[Name, Acknowledgement] = {}
        for name in names:
            try:
                said = read_acknowledgement(self._layout, name)
            except (ValueError, OSError) as error:
                self.problems.append(f"acknowledgement of {name.stream}.{name.table}: {error}")
            else:
                if said:
                    found[name] = said
        return found

    def kept(self, validations: Sequence[Validation]) -> frozenset[str]:
        """Return the existing pages of the newest validations."""
        newest = validations[-50:] if self._name else list(latest_of(validations).values())
        docs = self._layout.data_docs_uri
        paths = {one.docs_path for one in newest if one.docs_path}
        try:
            return frozenset(path for path in paths if exists(f"{docs}/{path}"))
        except OSError as error:
            _LOG.warning("the pages of Data Docs cannot be listed: %s", error)
            return frozenset()

    def _dataset(self, table: str) -> ds.Dataset | None:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            return DeltaTable(self._layout.table_uri(table)).to_pyarrow_dataset()
        except TableNotFoundError:
            self.missing.append(table)
        except (DeltaError, OSError) as error:
            self._broken(table, error)
        return None

    def _broken(self, table: str, error: Exception) -> None:
        _LOG.warning("table %s cannot be read: %s", table, error)
        self.problems.append(f"table {table}: {error}")


def _first(dataset: ds.Dataset, condition: Any, number: int) -> list[dict[str, Any]]:
    columns = [one for one in ("row", "origin", "masked_columns") if one in dataset.schema.names]
    return list(dataset.head(number, columns=columns, filter=condition).to_pylist())


def _known(specs: Iterable[StreamSpec]) -> tuple[Name, ...]:
    """Return the tables with a suite, by stream."""
    own = [Name(spec.stream, table) for spec in specs if spec.quality for table in spec.quality.tables]
    return (*own, *(Name(SHARED, table) for table in SHARED_TABLES))


def _words(settings: Settings, suite: str) -> dict[str, Words]:
    try:
        document = yaml.safe_load((settings.suites / f"{suite}.yaml").read_text(encoding="utf-8"))
        return {
            entry["name"]: Words(str(entry["means"]), str(entry["remedy"]))
            for entry in document["expectations"]
        }
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        _LOG.warning("cannot read the expectations of suite %s: %s", suite, error)
        return {}
