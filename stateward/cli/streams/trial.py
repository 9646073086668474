"""`stateward try`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer
from msgspec import UNSET
from msgspec.structs import replace
from rich.console import Console

from stateward.contract.process_output import CommandExit
from stateward.contract.reading import as_json
from stateward.contract.requests import DriverConfig, TrialRequest
from stateward.contract.storage import write_json
from stateward.control.jobs import batch_job
from stateward.control.launchers.launch import driver_config
from stateward.project.durations import parse_duration
from stateward.project.settings import Settings
from stateward.project.spec import load_spec


def run(stream: str, *, values: Iterable[str], during: str | None, master: str, **asked: Any) -> None:
    """Run the stream in a temporary folder, and print the rows of each batch."""
    settings = Settings()
    spec = load_spec(stream, settings.streams)
    console = Console()
    with tempfile.TemporaryDirectory(prefix="stateward-try-") as folder:
        config = in_folder(driver_config(spec, settings, "try"), f"file://{folder}")
        seconds = None if during is None else parse_duration(during).total_seconds()
        request = TrialRequest(config=config, values=values_of(values), seconds=seconds, **asked)
        request_uri = f"file://{folder}/request.json"
        write_json(request_uri, as_json(request))
        try:
            command = batch_job.spark_command(
                "try",
                request_uri,
                kind="try",
                name=f"try {stream}",
                spec=spec,
                settings=settings,
                master=master,
            )
            variables = batch_job.environment(settings, stream)
            batch_job.run(
                command,
                variables,
                Path(folder) / "job.log",
                lambda part, what: console.print(f"{part} {what}", highlight=False),
                line=lambda text: print(text, end="", flush=True),
            )
        except batch_job.JobError as error:
            print(f"stateward: {error}", file=sys.stderr)
            raise typer.Exit(CommandExit.FAILED) from None


def in_folder(config: DriverConfig, folder_uri: str) -> DriverConfig:
    """The configuration with everything that the stream writes in one folder, and nothing in Kafka."""
    return replace(
        config,
        lease=replace(config.lease, uri=f"{folder_uri}/leases"),
        checkpoint_uri=f"{folder_uri}/checkpoint",
        status_uri=f"{folder_uri}/status.json",
        control_uri=f"{folder_uri}/control.json",
        state_cache_dir=f"{folder_uri.removeprefix('file://')}/cache",
        tables={name: f"{folder_uri}/tables/{name}" for name in config.tables},
        kafka_sink=UNSET,
        forgotten_uri="",
    )


def values_of(texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The values of `field=a,b`, by field.

    Raises:
        typer.BadParameter: A text is not of that form.
    """
    found = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not name or not equals or not values:
            raise typer.BadParameter(
                f"--value {text}: expected FIELD=VALUE,VALUE, such as kind=login,logout."
            )
        found[name] = tuple(values.split(","))
    return found
