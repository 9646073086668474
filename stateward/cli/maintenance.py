"""`stateward maintenance`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stateward.contract.names import TABLE_MAINTENANCE
from stateward.platform.running import running_settings
from stateward.project.layout import Layout
from stateward.project.settings import Settings


def run(tables: Sequence[str], *, dry_run: bool) -> None:
    """Maintain tables, with a line per step; then print the report."""
    from deltalake.exceptions import DeltaError

    from stateward.maintenance import record, summary
    from stateward.maintenance.maintain import maintain
    from stateward.maintenance.tasks import tasks

    settings = running_settings(Settings())
    console, now = Console(), datetime.now(UTC)
    report = Table(*summary.COLUMNS)
    failed = False
    for task in tasks(settings, tables, now):

        def say(step: str, what: str, table: str = task.table) -> None:
            console.print(f"{table:<26} {step:<12} {what}", highlight=False, markup=False, soft_wrap=True)

        try:
            done = maintain(task, now=now, dry_run=dry_run, report=say)
        except (DeltaError, OSError) as error:
            # An unreadable table must not keep the others from being maintained.
            say("failed", str(error))
            failed = True
            continue
        if not dry_run:
            record.append(Layout.of(settings).table_uri(TABLE_MAINTENANCE), done, "cli")
        report.add_row(*(escape(cell) for cell in summary.cells(done)))
    console.print(report)
    if failed:
        raise typer.Exit(1)
