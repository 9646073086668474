"""The `stateward` command: one verb per file, imported when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stateward.cli.errors import run_command
from stateward.cli.project.new import app as new
from stateward.cli.project.new import lay_out, update
from stateward.cli.quality import app as quality
from stateward.cli.state import app as state
from stateward.cli.streams.commands import STREAMS
from stateward.cli.streams.commands import app as actions
from stateward.cli.streams.size import size
from stateward.cli.streams.try_stream import try_stream

PLATFORM, SETUP = "Platform", "Setup"

app = typer.Typer(
    name="stateward",
    help="Long-lived stateful PySpark streams under Airflow: deploy, supervise, validate.\n\n"
    "Settings come from STATEWARD_* variables; all files are under STATEWARD_HOME (default: var/).",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


# What reads nothing of an installation's storage.
_WITHOUT_STORAGE = frozenset({"init", "jars", "new", "replay", "size", "up", "update", "validate"})


@app.callback()
def reach_storage(ctx: typer.Context) -> None:
    """Take the keys of object storage from the Airflow connection that the settings name."""
    if ctx.invoked_subcommand in _WITHOUT_STORAGE:
        return
    from stateward.airflow.storage_connection import use_storage_in_command
    from stateward.project.settings import Settings

    use_storage_in_command(Settings())


# Without a name: its commands are beside the others.
app.add_typer(actions)
app.add_typer(new, name="new", rich_help_panel=SETUP)
app.command("init", rich_help_panel=SETUP)(lay_out)
app.command("update", rich_help_panel=SETUP)(update)
app.command("size", rich_help_panel=SETUP)(size)
app.add_typer(state, name="state", rich_help_panel=STREAMS)
app.add_typer(quality, name="quality", rich_help_panel=STREAMS)


@app.command(rich_help_panel=PLATFORM)
def up() -> None:
    """Start Kafka and Airflow, and wait until each answers; restarts parts that do not."""
    from stateward.cli.up import run

    run()


@app.command(rich_help_panel=PLATFORM)
def down() -> None:
    """Stop every process of `up` and of its streams; the desired state of streams is kept."""
    from stateward.cli.up import run_down

    run_down()


@app.command(rich_help_panel=PLATFORM)
def status(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Show the state of each part of the platform, and of each stream."""
    from stateward.cli.status import run

    run(as_json=as_json)


@app.command(rich_help_panel=PLATFORM)
def metrics() -> None:
    """Print the metrics of every stream in Prometheus' text format (docs/metrics.md)."""
    from stateward.cli.metrics import run

    run()


@app.command(rich_help_panel=PLATFORM)
def logs(
    name: Annotated[str, typer.Argument(help="A part (kafka, scheduler, ...) or a stream.")],
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="Number of lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log.")] = False,
) -> None:
    """Show the log of a part, or of a stream's newest driver."""
    from stateward.cli.logs import run

    run(name, lines=lines, follow=follow)


@app.command(rich_help_panel=STREAMS)
def lease(
    stream: Annotated[str, typer.Argument(help="The stream.")],
    last: Annotated[int, typer.Option("--last", min=1, help="Number of former holders.")] = 20,
) -> None:
    """Show the current and former holders of the lease on a stream's checkpoint (times are UTC)."""
    from stateward.cli.lease import run

    run(stream, last=last)


@app.command(rich_help_panel=STREAMS)
def replay(  # noqa: PLR0917 - Typer's form of a command line
    file: Annotated[str, typer.Argument(help="JSON lines, plain or gzip; - reads standard input.")],
    topic: Annotated[str, typer.Option("--topic", "-t", help="Topic to send to.")],
    rate: Annotated[
        float | None, typer.Option("--rate", help="Records per second; unlimited by default.")
    ] = None,
    tick: Annotated[
        bool, typer.Option("--tick", help="End with a tick, so that the last timeouts fire.")
    ] = False,
    tick_after: Annotated[
        str | None,
        typer.Option("--tick-after", help="With --tick: its time after the last event, such as 90m or 25h."),
    ] = None,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions, if the topic has to be created.")] = 3,
    key_field: Annotated[
        str, typer.Option(help="Field with the key, or its path, such as user.id.")
    ] = "user_id",
) -> None:
    """Send the lines of a file to Kafka, byte for byte, including invalid ones."""
    from stateward.cli.replay import run

    if tick_after is not None and not tick:
        raise typer.BadParameter(
            f"--tick-after {tick_after}: no tick is sent without --tick."
            " Add --tick, or leave --tick-after out."
        )

    run(
        file,
        topic=topic,
        rate=rate,
        tick=tick,
        tick_after=tick_after,
        partitions=partitions,
        key_field=key_field,
    )


app.command("try", rich_help_panel=STREAMS)(try_stream)


@app.command(rich_help_panel=STREAMS)
def backfill(  # noqa: PLR0917 - Typer's form of a command line
    stream: Annotated[str, typer.Argument(help="The stream whose tables are recomputed.")],
    begin: Annotated[
        str, typer.Option("--from", help="Start of the range, such as 2024-03-01 or 2024-03-01T06:00Z.")
    ],
    end: Annotated[str, typer.Option("--to", help="End of the range, exclusive.")],
    into: Annotated[
        str | None,
        typer.Option("--into", help="URI of the tables (default: backfill/STREAM under STATEWARD_HOME)."),
    ] = None,
    with_late: Annotated[
        bool, typer.Option("--with-late", help="Include events that were too late for the stream.")
    ] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare with the live tables; exit code 1 if they differ.")
    ] = False,
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[*]",
) -> None:
    """Recompute a stream's rows of a time range from raw_events, into separate tables."""
    from stateward.cli.backfill import run

    run(stream, begin=begin, end=end, into=into, with_late=with_late, compare=compare, master=master)


@app.command(rich_help_panel=STREAMS)
def sql(
    query: Annotated[
        list[str] | None, typer.Argument(help="Queries; without one, statements are read from the terminal.")
    ] = None,
) -> None:
    """Query the tables with DuckDB: a view for each, and `<table>_valid` (docs/sql.md)."""
    from stateward.cli.sql import run

    run(query or [])


@app.command(rich_help_panel=STREAMS)
def maintenance(
    table: Annotated[
        list[str] | None, typer.Option("--table", help="Only this table; can be repeated.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Report what would happen, and change nothing.")
    ] = False,
) -> None:
    """Compact, vacuum and clean the log of tables, beside running streams (docs/maintenance.md)."""
    from stateward.cli.maintenance import run

    run(table or (), dry_run=dry_run)


@app.command(rich_help_panel=SETUP)
def jars(
    lock: Annotated[
        bool, typer.Option("--lock", help="Resolve jars.toml into jars.lock instead of fetching.")
    ] = False,
    into: Annotated[
        Path | None, typer.Option("--into", help="Folder to fetch into (default: STATEWARD_JARS).")
    ] = None,
    other: Annotated[
        str | None,
        typer.Option("--set", help="Another set: s3a, Hadoop's client for S3; s3, an S3 server for trials."),
    ] = None,
    archive: Annotated[
        bool, typer.Option(help="Archive the classes of Spark (180 MB): a driver starts sooner.")
    ] = True,
) -> None:
    """Fetch missing JARs of jars.lock, verified by checksum, and archive the classes of Spark."""
    from stateward.cli.jars import run

    run(lock=lock, into=into, other=other, archive=archive)


def main() -> None:
    """Run the command line; errors that a user can act on are shown without a traceback."""
    run_command("stateward", app)
