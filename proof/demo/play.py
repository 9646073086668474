"""The complete demo: its own installation, its steps, and the results."""

from __future__ import annotations

import json
import shutil
import time

from rich.console import Console
from rich.table import Table

from proof.demo.results import QualityVerdict, Results, read_results
from proof.demo.scenario import STREAM, Scenario
from stateward.cli.errors import shielded
from stateward.cli.steps import Steps
from stateward.cli.up import show_addresses
from stateward.platform.parts.ports import free_ports
from stateward.platform.shutdown import down
from stateward.platform.startup import port_fields, ports_are_free, up
from stateward.project.layout import Layout
from stateward.project.settings import Settings


class DemoResultError(RuntimeError):
    """The demo finished with a wrong result."""


def run(*, keep: bool) -> None:
    """Play the demo in an installation of its own; the last line on standard output is one JSON object."""
    began = time.monotonic()
    console = Console()
    settings = demo_settings(Settings())
    if settings.home.exists():
        # From a demo that was kept or killed.
        down(settings)
        shutil.rmtree(settings.home)
    settings = with_free_ports(settings)
    kept = False
    try:
        with Steps(console) as steps:
            scenario = Scenario(settings, steps.report)
            up(settings, scenario.on_part)
            verdict = scenario.play()
        results = read_results(Layout.of(settings), STREAM)
        _show(console, results, verdict)
        kept = keep
    finally:
        if not kept:
            with shielded():
                down(settings)
    if kept:
        _say_where(console, settings)
    console.print(f"\nThis took {time.monotonic() - began:.0f} s.", highlight=False)
    print(json.dumps(results.summary(verdict.word)), flush=True)
    if verdict.word != "passed":
        raise DemoResultError(
            f"{verdict.failed} expectations failed on version {verdict.version} of the table"
        )


def demo_settings(settings: Settings) -> Settings:
    """Return the settings of the demo's own installation, beside the one of `settings`."""
    # Constructed rather than copied, so that all derived settings follow the new home.
    return Settings(
        home=settings.home / "demo",
        data=f"file://{settings.home / 'demo' / 'data'}",
        embedded=True,
        kafka_bootstrap=f"localhost:{settings.kafka_port}",
    )


def with_free_ports(settings: Settings) -> Settings:
    """Return `settings`, with other ports if one is in use: a demo may run beside an installation."""
    if ports_are_free(settings):
        return settings
    fields = port_fields(settings)
    ports = dict(zip(fields, free_ports(len(fields), settings.bind_host), strict=True))
    return settings.model_copy(
        update={
            **ports,
            "kafka_bootstrap": f"localhost:{ports['kafka_port']}",
            "airflow_url": f"http://localhost:{ports['airflow_port']}",
        }
    )


def _show(console: Console, results: Results, verdict: QualityVerdict) -> None:
    sessions = Table("closed by", "sessions", "events", title="Sessions", title_justify="left")
    for reason, (count, events) in sorted(results.by_reason.items()):
        sessions.add_row(reason, f"{count:,}", f"{events:,}")
    sessions.add_row("all", f"{results.sessions:,}", f"{results.events_in_sessions:,}", style="bold")
    busiest = Table("visitor", "sessions", "events", title="Busiest visitors", title_justify="left")
    for user, count, events in results.busiest:
        busiest.add_row(user, f"{count:,}", f"{events:,}")
    records = Table("records", "count", title="Where every record went", title_justify="left")
    for name, value in results.counters.items():
        records.add_row(name, f"{value:,}")
    records.add_row(f"delivered in {results.batches} batches", f"{results.delivered:,}", style="bold")
    for table in (sessions, busiest, records):
        console.print()
        console.print(table)
    console.print(
        f"\nQuality of sessions at version {verdict.version}: {verdict.word}, "
        f"{verdict.passed} expectations met, {verdict.failed} not.",
        highlight=False,
    )


def _say_where(console: Console, settings: Settings) -> None:
    show_addresses(console, settings)
    console.print(f"DAG      {settings.airflow_url}/dags/stream_{STREAM}", highlight=False, soft_wrap=True)
    console.print(f"Docs     {Layout.of(settings).data_docs_uri}/index.html", highlight=False, soft_wrap=True)
    console.print(f"Stop it  STATEWARD_HOME={settings.home} stateward down", highlight=False, soft_wrap=True)
