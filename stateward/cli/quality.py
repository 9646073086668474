"""`stateward quality`: suites of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Suites of tables: a first draft (docs/quality.md).", no_args_is_help=True)


@app.callback()
def quality() -> None:
    """Keep verbs below `quality` although there is only one."""


@app.command()
def draft(
    table: Annotated[str, typer.Argument(help="The table.")],
    file: Annotated[
        Path | None, typer.Option("--file", help="Where to; include/quality/TABLE.yaml without.")
    ] = None,
) -> None:
    """Profile a table's rows and write a draft of its suite; never overwrites a file."""
    import subprocess
    import sys

    from stateward.platform.running import running_settings
    from stateward.project.layout import Layout
    from stateward.project.settings import LIBRARY, Settings

    settings = running_settings(Settings())
    written = subprocess.run(
        [
            sys.executable,
            str(LIBRARY / "quality" / "suites" / "draft.py"),
            *("--table-uri", Layout.of(settings).table_uri(table)),
            *("--table", table),
            *("--file", str(file or settings.suites / f"{table}.yaml")),
        ],
        check=False,
    )
    raise typer.Exit(written.returncode)
