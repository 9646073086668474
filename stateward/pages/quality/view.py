"""The view models of the quality pages. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from stateward.pages.link import Link
from stateward.pages.quality.charts import Bar, pass_rates, strip
from stateward.pages.quality.failures import Failure, latest_of
from stateward.pages.quality.history import NOT_NULL, ROW_COUNT, Name, Reconciliation, Result, Validation
from stateward.rendering import page_address
from stateward.rendering.charts import Chart, Mark, Series, across, chart_of
from stateward.rendering.human_units import format_count, format_percent, format_time

_ORDER = {"bad": 0, "warn": 1, "good": 2, "calm": 3}


@dataclass(frozen=True)
class State:
    """The current state of a table by its last validation, if it has one."""

    level: str
    says: str


@dataclass(frozen=True)
class TableRow:
    """A table on the overview.

    Attributes:
        last: Its last validation in the time shown.
        bars: Its pass rate over time.
        pass_rate: Share of results that passed in the time shown.
        rows: Its number of rows over time.
        failure: Its newest failure.
        reconciled: Its last reconciliation.
    """

    name: Name
    state: State
    last: Validation | None
    bars: tuple[Bar, ...]
    pass_rate: str
    rows: Chart
    failure: Failure | None
    reconciled: Reconciliation | None


@dataclass(frozen=True)
class Strip:
    """An expectation over time."""

    expectation: str
    severity: str
    level: str
    pass_rate: str
    bars: tuple[Bar, ...]
    failed: int
    evaluated: int


@dataclass(frozen=True)
class Trends:
    """The charts of a table; `without_nulls` are columns that had none at all."""

    rows: tuple[Chart, ...]
    nulls: tuple[Chart, ...]
    without_nulls: tuple[str, ...]


def state_of(last: Validation | None) -> State:
    """Return the current state of a table."""
    if last is None:
        return State("calm", "not yet validated")
    if not last.failed:
        return State("good", "all hold")
    return State(last.level, f"{last.failed} of {last.expectations} fail")


def table_rows(
    known: Iterable[Name],
    validations: Sequence[Validation],
    failures: Iterable[Failure],
    reconciliations: Iterable[Reconciliation],
    *,
    begin: datetime,
    now: datetime,
) -> tuple[TableRow, ...]:
    """Build the overview, tables with problems first.

    Args:
        known: The tables with a suite.
        validations: The oldest first.
        failures: The newest first.
        reconciliations: The oldest first.
        begin: The left edge of the charts.
        now: The right one.
    """
    latest = latest_of(validations)
    by_name: dict[Name, list[Validation]] = defaultdict(list)
    for one in validations:
        by_name[one.name].append(one)
    newest = {one.newest.name: one for one in reversed(list(failures))}
    reconciled = {one.name: one for one in reconciliations}
    rows = [
        TableRow(
            name=name,
            state=state_of(latest.get(name)),
            last=latest.get(name),
            bars=pass_rates(by_name[name], begin, now),
            pass_rate=_pass_rate(by_name[name]),
            rows=_row_chart(by_name[name], begin, now),
            failure=newest.get(name),
            reconciled=reconciled.get(name),
        )
        for name in sorted({*known, *latest, *reconciled})
    ]
    return tuple(sorted(rows, key=_urgency))


def _urgency(row: TableRow) -> int:
    """Return the worse of two levels: wrong rows of a reconciliation are as bad as a failed expectation."""
    compared = _ORDER[row.reconciled.level] if row.reconciled else _ORDER["calm"]
    return min(_ORDER[row.state.level], compared)


def strips(results: Iterable[Result], begin: datetime, now: datetime) -> tuple[Strip, ...]:
    """Draw each expectation of one table: failing ones first, then those that have failed, then by name.

    Args:
        results: The oldest first.
        begin: The left edge.
        now: The right one.
    """
    by_name: dict[str, list[Result]] = defaultdict(list)
    for one in results:
        by_name[one.expectation].append(one)
    newest = max((of_one[-1].at for of_one in by_name.values()), default=now)
    found = []
    for name, of_one in by_name.items():
        failed = sum(not one.held for one in of_one)
        last = of_one[-1]
        # An expectation that left the suite has no current state.
        level = last.level if last.at == newest else "calm"
        rate = format_percent(100 * (1 - failed / len(of_one)))
        bars = strip(of_one, begin, now)
        found.append(Strip(name, last.severity, level, rate, bars, failed, len(of_one)))
    return tuple(sorted(found, key=lambda one: (_ORDER[one.level], -one.failed, one.expectation)))


def trends(
    validations: Sequence[Validation], results: Sequence[Result], begin: datetime, now: datetime
) -> Trends:
    """Draw row counts and null rates of one table."""
    marks = _marks((one for one in results if one.kind == ROW_COUNT and not one.held), begin, now)
    brought: Series = tuple((one.at, float(one.rows)) for one in validations if one.rows is not None)
    rows = (
        _row_chart(validations, begin, now, marks),
        _chart(
            brought, begin, now, name="Rows of each validation", unit="new since the one before", marks=marks
        ),
    )
    by_column: dict[str, list[Result]] = defaultdict(list)
    for one in results:
        if one.kind == NOT_NULL and one.column and one.unexpected_percent is not None:
            by_column[one.column].append(one)
    nulls = {
        column: chart_of(
            tuple((one.at, one.unexpected_percent or 0.0) for one in of_one),
            begin,
            now,
            name=column,
            unit="null",
            form=format_percent,
            apart=now - begin,
        )
        for column, of_one in sorted(by_column.items())
        if any(one.unexpected_percent for one in of_one)
    }
    return Trends(rows, tuple(nulls.values()), tuple(sorted(set(by_column) - set(nulls))))


def _to(address: str) -> str:
    # The overview and the tables' pages lie side by side.
    return page_address.relative(address, page_address.QUALITY_PAGE)


def page_of(name: Name, days: int) -> str:
    """Return the path of a table's page, relative to the overview."""
    return _to(page_address.table(name.stream, name.table, days=days))


def report_of(docs_path: str, kept: frozenset[str]) -> Link | None:
    """Return the link to a validation's page in Data Docs, if it still exists."""
    return Link("Data Docs", _to(page_address.report(docs_path))) if docs_path in kept else None


def links_of(
    name: Name, last: Validation | None, kept: frozenset[str], streams: Iterable[str], dag_prefix: str = ""
) -> list[Link]:
    """Return links about a table, relative to its page."""
    dag = f"{dag_prefix}quality_{name.stream}"
    links = [Link("DAG", _to(page_address.dag(dag)), dag, outer=True)]
    if name.stream in streams:
        links.append(Link("Stream", _to(page_address.stream(name.stream)), name.stream))
    report = report_of(last.docs_path, kept) if last else None
    return [*links, report] if report else links


def summary(rows: Iterable[TableRow]) -> list[tuple[str, str]]:
    """Count tables by state, such as `("bad", "1 fails")`, the worst first."""
    words = {
        "bad": ("fails", "fail"),
        "warn": ("warns", "warn"),
        "good": ("holds", "hold"),
        "calm": ("not yet validated", "not yet validated"),
    }
    counted = Counter(row.state.level for row in rows)
    return [
        (level, f"{counted[level]} {words[level][counted[level] > 1]}")
        for level in _ORDER
        if level in counted
    ]


def _pass_rate(validations: Sequence[Validation]) -> str:
    evaluated = sum(one.expectations for one in validations)
    failed = sum(one.failed for one in validations)
    return format_percent(100 * (1 - failed / evaluated) if evaluated else None)


def _row_chart(
    validations: Iterable[Validation], begin: datetime, now: datetime, marks: tuple[Mark, ...] = ()
) -> Chart:
    series: Series = tuple(
        (one.at, float(one.table_rows)) for one in validations if one.table_rows is not None
    )
    return _chart(series, begin, now, name="Rows of the table", unit="", marks=marks)


def _chart(
    series: Series, begin: datetime, now: datetime, *, name: str, unit: str, marks: tuple[Mark, ...]
) -> Chart:
    return chart_of(
        series,
        begin,
        now,
        name=name,
        unit=unit,
        form=format_count,
        marks=marks,
        apart=now - begin,
    )


def _marks(failed: Iterable[Result], begin: datetime, now: datetime) -> tuple[Mark, ...]:
    """Return one mark per slot, whatever the number of failures in it."""
    found = {
        round(across(one.at, begin, now)): Mark(
            across(one.at, begin, now),
            True,
            f"{one.expectation} failed at {format_time(one.at, now)}",
        )
        for one in failed
        if begin <= one.at <= now
    }
    return tuple(found.values())
