"""`stateward validate`: every YAML, declaration, suite and connection of a project, without an engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

import typer
from rich.console import Console

from stateward.alerts.notifier_config import load_notifiers
from stateward.cli.streams.connections import check_connections
from stateward.contract.process_output import CommandExit, JobExit
from stateward.control.jobs.job_resources import JobResourcesError, load_batch_jobs
from stateward.control.launchers.launch import resolved_configuration
from stateward.maintenance.policy import PolicyError, load_policies
from stateward.platform.running import running_settings
from stateward.project.settings import Settings, python_path
from stateward.project.spec import StreamSpec, load_specs

_CHECK = "stateward.quality.suites.project_check"


class ValidationError(RuntimeError):
    """The project could not be checked."""


def run() -> None:
    """Print a line for each problem, and for what was not checked; exit code 1 if there are problems."""
    settings, console = running_settings(Settings()), Console()
    specs, problems = load_specs(settings.streams)
    connections = check_connections(settings, specs)
    found = [
        *map(str, problems),
        *other_problems(settings),
        *connections.problems,
        *declaration_problems(settings, specs),
    ]
    for line in (*found, *connections.notes):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if found:
        raise typer.Exit(CommandExit.DIFFERENT)
    valid = "1 stream is valid" if len(specs) == 1 else f"{len(specs)} streams are valid"
    console.print(f"{valid}: YAML, declarations and suites.")


def other_problems(settings: Settings) -> Iterator[str]:
    """Yield what is wrong in the YAML of notifiers, maintenance and batch jobs, with file and line."""
    yield from map(str, load_notifiers(settings.notifiers).problems)
    try:
        load_policies(settings.maintenance)
    except PolicyError as error:
        yield str(error)
    try:
        load_batch_jobs(settings, {file.stem for file in settings.streams.glob("*.yaml")})
    except JobResourcesError as error:
        yield str(error)


def declaration_problems(settings: Settings, specs: Sequence[StreamSpec]) -> list[str]:
    """Return what is wrong in declarations and suites: a process that imports the project's code finds it.

    Raises:
        ValidationError: The process has failed.
    """
    given = {
        spec.stream: {
            "tables": spec.tables,
            "topics": spec.source.names,
            "lookups": list(spec.lookups),
            "file": str(settings.streams / f"{spec.stream}.yaml"),
            "config": resolved_configuration(spec, settings, "validate"),
        }
        for spec in specs
    }
    checked = subprocess.run(
        [sys.executable, "-m", _CHECK, str(settings.suites)],
        input=json.dumps(given),
        # Python puts the working directory before PYTHONPATH.
        cwd=settings.jobs.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(python_path())},
        capture_output=True,
        text=True,
        check=False,
    )
    if checked.returncode not in (JobExit.DONE, JobExit.DIFFERENT):
        raise ValidationError(f"the declarations of {settings.jobs} could not be checked:\n{checked.stderr}")
    return checked.stdout.splitlines()
