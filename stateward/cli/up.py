"""`stateward up` and `stateward down`."""

from __future__ import annotations

from rich.console import Console

from stateward.cli.steps import Steps
from stateward.platform.parts.airflow import with_own_address
from stateward.platform.secrets import ADMIN, Secrets
from stateward.platform.shutdown import down
from stateward.platform.startup import up
from stateward.project.layout import Layout
from stateward.project.settings import Settings


def run() -> None:
    """Start the platform, then print its addresses and the login."""
    settings = with_own_address(Settings())
    console = Console()
    with Steps(console) as steps:
        up(settings, steps.report)
    show_addresses(console, settings)


def show_addresses(console: Console, settings: Settings) -> None:
    """Print the addresses of Airflow and Kafka, and the login."""
    password = Secrets.load_or_create(Layout.of(settings).airflow_home).admin_password
    console.print()
    console.print(
        f"Airflow  {settings.airflow_url}  login {ADMIN} / {password}", highlight=False, soft_wrap=True
    )
    console.print(f"Kafka    {settings.kafka_bootstrap}", highlight=False)
    console.print(f"State    {settings.home}", highlight=False, soft_wrap=True)


def run_down() -> None:
    """Stop the platform."""
    settings = Settings()
    console = Console()
    down(settings, lambda part, what: console.print(f"{part:<14} {what}", highlight=False))
    console.print(f"Everything of {settings.home} is stopped.", highlight=False, soft_wrap=True)
