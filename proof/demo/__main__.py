"""`python -m proof.demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from stateward.cli.errors import run_command

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running at the end.")] = False,
) -> None:
    """Run the platform on 10,000 real events, show the results, and stop it."""
    from proof.demo.play import run

    run(keep=keep)


if __name__ == "__main__":
    run_command("demo", app)
