"""The commands that start, stop and change a stream, and those that check a project before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from stateward.cli.streams.actions import Action

STREAMS = "Streams"

app = typer.Typer()

_Stream = Annotated[str, typer.Argument(help="The stream.")]
_Reason = Annotated[str | None, typer.Option("--reason", help="Why, for people who look at it later.")]
_Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done.")]


@app.command(rich_help_panel=STREAMS)
def start(stream: _Stream, reason: _Reason = None, wait: _Wait = True) -> None:
    """Start a stream, by its DAG; a healthy driver is left alone."""
    _act("run", stream, reason, wait)


@app.command(rich_help_panel=STREAMS)
def stop(stream: _Stream, reason: _Reason = None, wait: _Wait = True) -> None:
    """Stop a stream: its driver commits its batch and ends. The next start continues there."""
    _act("stop", stream, reason, wait)


@app.command(rich_help_panel=STREAMS)
def restart(stream: _Stream, reason: _Reason = None, wait: _Wait = True) -> None:
    """Replace a stream's driver by one with the current code and YAML, without the verdict of an upgrade."""
    _act("restart", stream, reason, wait)


@app.command(rich_help_panel=STREAMS)
def suspend(
    stream: _Stream, reason: Annotated[str, typer.Option("--reason", help="Why.")], wait: _Wait = True
) -> None:
    """Stop a stream until it is resumed, whoever starts it meanwhile."""
    _act("suspend", stream, reason, wait)


@app.command(rich_help_panel=STREAMS)
def resume(stream: _Stream, reason: _Reason = None, wait: _Wait = True) -> None:
    """End the suspension of a stream, and start it."""
    _act("resume", stream, reason, wait)


@app.command(rich_help_panel=STREAMS)
def upgrade(
    stream: _Stream,
    watch_s: Annotated[
        int, typer.Option("--watch-s", min=10, help="How long it has to be healthy afterwards, seconds.")
    ] = 300,
    reason: _Reason = None,
    wait: _Wait = True,
) -> None:
    """Move a stream to the current code and YAML: verdict, savepoint, start; and back if it fails."""
    _act("upgrade", stream, reason, wait, watch_s)


@app.command(rich_help_panel=STREAMS)
def remove(
    stream: _Stream,
    tables: Annotated[bool, typer.Option("--tables", help="Delete its own tables as well.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for a confirmation.")] = False,
) -> None:
    """Delete the state and the documents of a stopped stream, after it has listed them."""
    from stateward.cli.streams.removal import run

    run(stream, tables=tables, yes=yes)


@app.command(rich_help_panel=STREAMS)
def validate() -> None:
    """Check every YAML, declaration and suite, without an engine; exit code 1 if one is wrong."""
    from stateward.cli.streams.validate import run

    run()


@app.command(rich_help_panel=STREAMS)
def plan(
    stream: Annotated[str | None, typer.Argument(help="The stream; all without it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Show what an upgrade would change, its steps and its pause; exit code 3 if it would be refused."""
    from stateward.cli.streams.plan import run

    run(stream, as_json=as_json)


def _act(action: Action, stream: str, reason: str | None, wait: bool, watch_s: int | None = None) -> None:
    from stateward.cli.streams.actions import run

    run(action, stream, reason=reason, watch_s=watch_s, wait=wait)
