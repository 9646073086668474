"""`stateward down`."""

from __future__ import annotations

from rich.console import Console

from stateward.platform.shutdown import down
from stateward.project.settings import Settings


def run() -> None:
    """Stop the platform."""
    settings = Settings()
    console = Console()
    down(settings, lambda part, what: console.print(f"{part:<14} {what}", highlight=False))
    console.print(f"Everything of {settings.home} is stopped.", highlight=False, soft_wrap=True)
