"""`python -m proof.traffic`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stateward.cli.errors import run_command

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def traffic(  # noqa: PLR0917 - Typer's form of a command line
    profile: Annotated[str, typer.Option("--profile", help="quiet, daily or storm.")] = "daily",
    seed: Annotated[int, typer.Option("--seed", help="The same seed makes the same bytes.")] = 1,
    rate: Annotated[
        float, typer.Option("--rate", help="Records a second of event time, over all topics.")
    ] = 200.0,
    minutes: Annotated[float, typer.Option("--minutes", help="Event time in which stories begin.")] = 5.0,
    start: Annotated[
        str | None, typer.Option("--start", help="Event time at the beginning (default: January 2025).")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", "-t", help="Only this topic; may be repeated.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the manifest and every expected row.")
    ] = None,
    send: Annotated[
        bool, typer.Option("--send/--dry-run", help="Send it, or only make it and write --out.")
    ] = True,
    paced: Annotated[
        bool, typer.Option("--paced", help="Send at the rate, not as fast as possible.")
    ] = False,
    late: Annotated[
        bool,
        typer.Option(
            "--late", help="Then wait until the running streams are beyond it, and send late events."
        ),
    ] = False,
    tick: Annotated[
        bool, typer.Option("--tick/--no-tick", help="End with a tick after which every timeout has passed.")
    ] = True,
    deadline: Annotated[str, typer.Option(help="How long --late waits, such as 10m.")] = "10m",
    partitions: Annotated[int, typer.Option(min=1, help="Partitions, if a topic has to be created.")] = 3,
) -> None:
    """Send generated events whose outcome is known in advance, row for row (docs/traffic.md)."""
    from proof.traffic.show import run

    run(
        profile=profile,
        seed=seed,
        rate=rate,
        minutes=minutes,
        start=start,
        topics=tuple(topic or ()),
        out=out,
        send=send,
        paced=paced,
        late=late,
        tick=tick,
        deadline=deadline,
        partitions=partitions,
    )


if __name__ == "__main__":
    run_command("traffic", app)
