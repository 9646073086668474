"""`stateward backfill`."""

from __future__ import annotations

import sys
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from stateward.cli.steps import Steps
from stateward.contract.names import ENV_MASK_SECRET
from stateward.contract.process_output import CommandExit
from stateward.contract.storage import read_json, write_json
from stateward.control.jobs import batch_job
from stateward.control.jobs.backfill_request import build_request, parse_moment
from stateward.platform.mask_secret import mask_secret
from stateward.platform.running import running_settings
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import load_spec


def run(
    stream: str, *, begin: str, end: str, into: str | None, with_late: bool, compare: bool, master: str
) -> None:
    """Recompute, with a line per step; then print the result."""
    settings = running_settings(Settings())
    spec = load_spec(stream, settings.streams)
    request = build_request(
        spec,
        settings,
        parse_moment(begin, "--from"),
        parse_moment(end, "--to"),
        into=into,
        with_late=with_late,
        compare=compare,
    )
    folder = Layout.of(settings).backfill_dir(stream)
    request_uri = f"file://{folder / 'request.json'}"
    write_json(request_uri, request)
    console = Console()
    try:
        command = batch_job.spark_command(
            "backfill",
            request_uri,
            kind="backfill",
            name=f"backfill {stream}",
            spec=spec,
            settings=settings,
            master=master,
        )
        variables = {**batch_job.environment(settings, stream), ENV_MASK_SECRET: mask_secret(settings)}
        with Steps(console) as steps:
            batch_job.run(command, variables, folder / "job.log", steps.report)
    except batch_job.JobError as error:
        print(f"stateward: {error}", file=sys.stderr)
        raise typer.Exit(CommandExit.FAILED) from None
    report = read_json(request["report_uri"]) or {}
    _show(console, report)
    if report.get("equal") is False:
        raise typer.Exit(CommandExit.DIFFERENT)


def _show(console: Console, report: dict[str, Any]) -> None:
    counts = report["counts"]
    console.print(
        f"\n{report['stream']} from {report['from']} to {report['to']}: "
        f"{counts.get('events', 0):,} events of {counts.get('keys', 0):,} keys read, "
        f"{counts.get('dead', 0):,} dead letters.",
        highlight=False,
        soft_wrap=True,
    )
    console.print(_tables(report))
    for entry in report["tables"]:
        if entry.get("shown"):
            console.print(_differences(entry))
            console.print(f"All of them: {entry['differences_uri']}", highlight=False, soft_wrap=True)
    for note in report["notes"]:
        console.print(f"Note: {note}", highlight=False, soft_wrap=True)
    if report["equal"] is not None:
        console.print("equal" if report["equal"] else "different")


def _tables(report: dict[str, Any]) -> Table:
    table = Table("table", "rows", "only live", "only here", "where")
    for entry in report["tables"]:
        only = (str(entry.get(name, "")) for name in ("only_live", "only_backfill"))
        table.add_row(entry["table"], f"{entry['rows']:,}", *only, entry["uri"])
    return table


def _differences(entry: dict[str, Any]) -> Table:
    rows = entry["shown"]
    total = entry["only_live"] + entry["only_backfill"]
    title = f"{entry['table']}: {len(rows)} of {total} rows that only one of the two has"
    table = Table(*rows[0], title=title, title_justify="left")
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    return table
