"""The quality pages as self-contained HTML: the overview, and one page per table."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from stateward.pages.inline_page import SelfContainedPage
from stateward.pages.link import Link
from stateward.pages.quality.acknowledgement import MOST_CHARACTERS
from stateward.pages.quality.failures import Failure, failing_of, failures_of, latest_of
from stateward.pages.quality.history import Name
from stateward.pages.quality.rows import Examples
from stateward.pages.quality.tables import Found, Words
from stateward.pages.quality.view import (
    links_of,
    page_of,
    report_of,
    state_of,
    strips,
    summary,
    table_rows,
    trends,
)
from stateward.project.spec import SHARED
from stateward.rendering.charts import left_edge
from stateward.rendering.human_units import (
    format_ago,
    format_count,
    format_duration,
    format_percent,
    format_range,
    format_time,
)
from stateward.rendering.page_address import DATA_DOCS_PAGE, QUALITY_PAGE, relative

MOST_DAYS = 30
"""Longest time that the pages show, days."""

_CHOICES = (1, 7, MOST_DAYS)
_LEAST = timedelta(hours=1)
_OVERVIEW = SelfContainedPage("quality.html.j2", style="quality.css", refresh_s=60)
_TABLE = SelfContainedPage("quality_table.html.j2", style="quality.css", refresh_s=60)
_FAILURES_ON_OVERVIEW = 6
_VALIDATIONS_SHOWN = 25
_RECONCILIATIONS_SHOWN = 10


@dataclass(frozen=True)
class FailureDetails:
    """A failure as the page shows it.

    Attributes:
        observed: The observed value; empty if it may contain personal values.
        examples: Rows; None without any in quarantine, and for an older failure.
    """

    failure: Failure
    observed: str
    words: Words | None
    examples: Examples | None
    report: Link | None
    page: str


def since(now: datetime, days: int) -> datetime:
    """Return the start of the time to read."""
    return now - timedelta(days=days)


def render_overview(found: Found, now: datetime, days: int) -> str:
    """Render the overview.

    Args:
        found: The data of all tables.
        now: The time, aware.
        days: Time that the charts show, 1 to `MOST_DAYS`.
    """
    failures = failures_of(found.results, latest_of(found.validations))
    begin = _begin(found, now, days)
    rows = table_rows(found.known, found.validations, failures, found.reconciliations, begin=begin, now=now)
    idle = found.never_started
    running = [row for row in rows if row.last or row.reconciled or row.name.stream not in idle]
    return _OVERVIEW.render(
        **_shared(found, now, days),
        rows=running,
        unstarted=[row for row in rows if row not in running],
        owners=found.owners,
        said={
            name: said
            for name, said in found.acknowledgements.items()
            if said.covers(failing_of(failures, name))
        },
        summary=summary(running),
        data_docs=relative(DATA_DOCS_PAGE, QUALITY_PAGE),
        failures=[_told(one, found, days) for one in failures[:_FAILURES_ON_OVERVIEW]],
        more_failures=max(0, len(failures) - _FAILURES_ON_OVERVIEW),
        page_of=functools.partial(page_of, days=days),
    )


def render_table(found: Found, name: Name, now: datetime, days: int) -> str:
    """Render the page of one table.

    Args:
        found: The table's data.
        name: The table.
        now: The time, aware.
        days: Time that the charts show, 1 to `MOST_DAYS`.
    """
    begin, latest = _begin(found, now, days), latest_of(found.validations)
    last = latest.get(name)
    failures = failures_of(found.results, latest)
    newest = list(reversed(found.validations))[:_VALIDATIONS_SHOWN]
    return _TABLE.render(
        **_shared(found, now, days),
        shown=format_duration((now - begin).total_seconds()),
        name=name,
        owner=found.owners.get(name.stream),
        said=found.acknowledgements.get(name),
        failing=failing_of(failures, name),
        most_characters=MOST_CHARACTERS,
        state=state_of(last),
        last=last,
        links=links_of(
            name, last, found.kept, {one.stream for one in found.known} - {SHARED}, found.dag_prefix
        ),
        strips=strips(found.results, begin, now),
        trends=trends(found.validations, found.results, begin, now),
        failures=[_told(one, found, days) for one in failures],
        validations=[(one, report_of(one.docs_path, found.kept)) for one in newest],
        more_validations=len(found.validations) - len(newest),
        reconciliations=list(reversed(found.reconciliations))[:_RECONCILIATIONS_SHOWN],
    )


def _begin(found: Found, now: datetime, days: int) -> datetime:
    first = found.validations[0].at if found.validations else None
    return left_edge(first, now, timedelta(days=days), _LEAST)


def policies() -> tuple[str, str]:
    """Return the Content-Security-Policy of the overview, and that of a table's page."""
    return _OVERVIEW.content_policy(), _TABLE.content_policy()


def _shared(found: Found, now: datetime, days: int) -> dict[str, object]:
    return {
        "now": now.astimezone(UTC),
        "days": days,
        "choices": tuple(sorted({*_CHOICES, days})),
        "missing": found.missing,
        "problems": found.problems,
        "moment": functools.partial(format_time, now=now),
        "ago": functools.partial(format_ago, now=now),
        "count": format_count,
        "stretch": format_range,
        "percent": format_percent,
    }


def _told(failure: Failure, found: Found, days: int) -> FailureDetails:
    newest = failure.newest
    return FailureDetails(
        failure=failure,
        observed=newest.observed if newest.is_masked else "",
        words=found.words.get(newest.expectation),
        examples=found.examples.get(newest),
        report=report_of(newest.docs_path, found.kept),
        page=page_of(newest.name, days),
    )
