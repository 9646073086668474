"""`stateward state VERB STREAM`: a command for each verb of the table."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stateward.contract.names import ENV_MASK_SECRET
from stateward.contract.process_output import CommandExit
from stateward.control.jobs.verb_field import Field
from stateward.control.jobs.verbs import VERBS, Verb

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    help="Operations on a stream's state, such as savepoints (docs/state-operations.md).",
    no_args_is_help=True,
)


def _command(verb: Verb) -> Any:
    """Build Typer's function of a verb, whose signature has the verb's fields."""

    def command(**given: Any) -> None:
        stream, master = given.pop("stream"), given.pop("master", "")
        dry_run = given.pop("dry_run", False)
        run(verb, stream, given, dry_run=dry_run, master=master)

    stream = Annotated[str, typer.Argument(help="The stream.")]
    parameters = [_parameter("stream", stream)]
    parameters += [_parameter(field.name, _annotation(field), field) for field in verb.fields]
    if verb.has_dry_run:
        help_ = "Say what would happen, and change nothing."
        parameters.append(
            _parameter("dry_run", Annotated[bool, typer.Option("--dry-run", help=help_)], False)
        )
    if verb.needs_spark:
        master = Annotated[str, typer.Option("--master", help="Where Spark runs.")]
        parameters.append(_parameter("master", master, "local[*]"))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    if isinstance(default, Field):
        default = inspect.Parameter.empty if default.is_required else default.default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _annotation(field: Field) -> Any:
    option = typer.Option(f"--{field.name.replace('_', '-')}", help=f"{field.help}.", min=field.minimum)
    may_be_none = field.default is None and not field.is_required
    return Annotated[field.type | None if may_be_none else field.type, option]


for _verb in VERBS.values():
    app.command(_verb.name, help=_verb.summary)(_command(_verb))


def run(verb: Verb, stream: str, given: dict[str, Any], *, dry_run: bool, master: str) -> None:
    """Run a verb, with a line per step; then print its result."""
    from datetime import UTC, datetime

    from rich.console import Console

    from stateward.cli.steps import Steps
    from stateward.control.jobs import batch_job
    from stateward.control.jobs.operation_request import prepare
    from stateward.platform.mask_secret import mask_secret
    from stateward.platform.running import running_settings
    from stateward.project.settings import Settings
    from stateward.project.spec import load_spec

    settings = running_settings(Settings())
    spec = load_spec(stream, settings.streams)
    given = {**given, **_typed(verb, given)}
    operation = prepare(verb, spec, settings, given, now=datetime.now(UTC), dry_run=dry_run)
    console = Console()
    try:
        command = operation.command(spec, settings, master)
        with Steps(console) as steps:
            variables = batch_job.environment(settings, stream)
            if verb.needs_secret:
                variables[ENV_MASK_SECRET] = mask_secret(settings)
            good = batch_job.run(command, variables, operation.log, steps.report)
    except batch_job.JobError as error:
        print(f"stateward: {error}", file=sys.stderr)
        raise typer.Exit(CommandExit.FAILED) from None
    show(console, operation.result() or {})
    console.print(f"Page: {operation.page_uri}", highlight=False, soft_wrap=True)
    if not good:
        raise typer.Exit(CommandExit.DIFFERENT)


def _typed(verb: Verb, given: dict[str, Any]) -> dict[str, str]:
    """Read the values that are not to be in the shell's history: a hyphen stands for standard input."""
    asked = [field.name for field in verb.fields if field.is_secret and given.get(field.name) == "-"]
    return {name: sys.stdin.readline().rstrip("\n") for name in asked}


def show(console: Console, result: dict[str, Any]) -> None:
    """Print an operation's result."""
    from rich.markup import escape
    from rich.table import Table

    for line in result.get("lines", ()):
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    for listing in result.get("listings", ()):
        table = Table(*listing["columns"], title=listing["title"], title_justify="left")
        for row in listing["rows"]:
            table.add_row(*("" if cell is None else escape(str(cell)) for cell in row))
        console.print(table)
