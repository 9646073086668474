"""The options of `stateward try`: events of files, or made-up records at a rate."""

from __future__ import annotations

from typing import Annotated

import typer

_OF_RECORDS = {
    "rate": "--rate",
    "speed": "--speed",
    "keys": "--keys",
    "value": "--value",
    "during": "--for",
    "master": "--master",
}


def try_stream(  # noqa: PLR0917 - Typer's form of a command line
    ctx: typer.Context,
    stream: Annotated[str, typer.Argument(help="The stream to try.")],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EVENTS]...",
            help="Files of events, a JSON object in each line; TOPIC=FILE if the stream reads several topics."
            " Without one, records are made up.",
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option("--watch", "-w", help="Run again whenever a file of events or of the stream is saved."),
    ] = False,
    rate: Annotated[float, typer.Option(min=0.01, help="Made-up records per second.")] = 10,
    speed: Annotated[
        float, typer.Option(min=0.01, help="How many seconds of event time pass in a second.")
    ] = 1,
    keys: Annotated[int, typer.Option(min=1, help="Number of keys.")] = 5,
    value: Annotated[
        list[str] | None,
        typer.Option("--value", help="Values of a field, such as kind=login,logout; can be repeated."),
    ] = None,
    during: Annotated[
        str | None, typer.Option("--for", help="How long, such as 30s (default: until Ctrl-C).")
    ] = None,
    rows: Annotated[
        int, typer.Option(min=1, help="Rows of a table that are shown, of a batch or a file.")
    ] = 20,
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[2]",
) -> None:
    """Try a stream on files of events in plain Python, or on made-up records in Spark (docs/try.md)."""
    if files:
        given = [
            option
            for name, option in _OF_RECORDS.items()
            if (source := ctx.get_parameter_source(name)) and source.name == "COMMANDLINE"
        ]
        if given:
            raise typer.BadParameter(
                f"{', '.join(given)}: only for made-up records. Leave the files out, or these options."
            )
        from stateward.cli.streams import trial_files

        return trial_files.run(stream, files, watch=watch, rows=rows)
    if watch:
        raise typer.BadParameter("--watch: expected a file of events to watch, found none. Name one.")
    from stateward.cli.streams import trial

    return trial.run(
        stream,
        rate=rate,
        speed=speed,
        keys=keys,
        values=value or (),
        during=during,
        rows=rows,
        master=master,
    )
