"""`stateward init` and `stateward new`: a project and its parts, from templates."""

from __future__ import annotations

import getpass
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from stateward.cli.project.project_files import Written

app = typer.Typer(help="Add a stream to the project (docs/your-project.md).", no_args_is_help=True)


class NewStreamError(ValueError):
    """The stream cannot be added."""


def lay_out(
    folder: Annotated[Path, typer.Argument(help="The folder; made if it is missing.")] = Path(),
) -> None:
    """Lay out a project: folders, two DAG files, Docker Compose. Files that are there are kept."""
    from stateward.cli.project.init import run

    run(folder)


def update(
    base: Annotated[
        Path | None,
        typer.Option(
            "--base",
            help="Folder as the release that laid out the project lays it out, for files without a record.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Report what would happen, and change nothing.")
    ] = False,
) -> None:
    """Merge the templates of this release into the project; exit code 3 if there are conflicts.

    Edits of yours are kept, and the files of streams are not touched.
    """
    from stateward.cli.project.update import run

    run(fresh=base, dry_run=dry_run)


@app.callback()
def new() -> None:
    """Keep parts below `new` although there is only one."""


@app.command()
def stream(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and _, such as refunds.")],
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="Topic it reads (default: NAME_events).")
    ] = None,
    key: Annotated[str, typer.Option("--key", help="Field with the key of an event.")] = "user_id",
) -> None:
    """Add a stream: its model, logic, declaration and YAML, and a test that passes."""
    from rich.console import Console

    from stateward.cli.project.init import report
    from stateward.project.settings import Settings

    project = Settings().project
    written = new_stream(project, name, topic=topic or f"{name}_events", key=key)
    console = Console()
    report(console, project, written)
    console.print(
        f"\nNext: write what it computes in spark_jobs/{name}/logic.py, and run pytest tests/streams/{name}",
        highlight=False,
    )


def new_stream(project: Path, name: str, *, topic: str, key: str) -> Written:
    """Write the files of a stream, and the schema of the YAMLs.

    Raises:
        NoProjectError: The folder is no project.
        NewStreamError: The name cannot be one, or there is such a stream.
        OSError: A file cannot be written.
    """
    from stateward.cli.project.project_files import render, require_project, write
    from stateward.project.project import NAME_PATTERN
    from stateward.project.spec_schema import SCHEMA_FILE, schema_text

    require_project(project)
    for what, value in (("name", name), ("key", key)):
        if not re.fullmatch(NAME_PATTERN, value):
            raise NewStreamError(
                f"expected as the {what} of the stream lower-case letters, digits and _, beginning with a"
                f" letter, found {value!r}"
            )
    there = project / "include" / "streams" / f"{name}.yaml"
    if there.exists() or (project / "spark_jobs" / name).exists():
        raise NewStreamError(
            f"stream {name}: expected none of this name, found {there}. Choose another name."
        )
    values = {
        "stream": name,
        "name": "".join(part.capitalize() for part in name.split("_")),
        "topic": topic,
        "key": key,
        "owner": getpass.getuser(),
    }
    written = write(project, render("stream", values))
    (project / "include" / "streams" / SCHEMA_FILE).write_text(schema_text(), encoding="utf-8")
    return written
