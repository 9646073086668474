"""`stateward plan`: what an upgrade would change, for people and for a check of changes. Needs no engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import typer
from rich.console import Console

from stateward.contract.process_output import PlanExit
from stateward.contract.reading import as_json
from stateward.contract.storage import read_json
from stateward.control.jobs.upgrade_plan import UpgradePlan, plan_of
from stateward.control.launchers.launch import driver_config
from stateward.platform.running import running_settings
from stateward.project.layout import Layout
from stateward.project.settings import Settings, python_path
from stateward.project.spec import SpecError, StreamSpec, load_spec, load_specs

_JUDGE = "stateward.state.plan"


class PlanError(RuntimeError):
    """A stream could not be judged."""


def run(stream: str | None, *, as_json: bool) -> None:
    """Print the plan of a stream, or of all.

    Raises:
        PlanError: One of them cannot be judged; the plans of the others are printed.
        SpecError: A YAML is missing or invalid.
        typer.Exit: An upgrade would be refused.
    """
    settings, console = running_settings(Settings()), Console()
    plans = plans_of(specs_of(stream, settings), settings)
    if as_json:
        print(json.dumps({"version": 1, "streams": [plan.as_json() for plan in plans]}, indent=2))
    else:
        for line in (line for plan in plans for line in plan.text()):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    if problems := [plan.stream for plan in plans if plan.problem]:
        raise PlanError(f"{', '.join(problems)} cannot be judged. `stateward validate` says what is wrong.")
    if any(plan.is_refused for plan in plans):
        raise typer.Exit(PlanExit.REFUSED)


def specs_of(stream: str | None, settings: Settings) -> Sequence[StreamSpec]:
    """Read the YAML of a stream, or of all.

    Raises:
        SpecError: One is missing or invalid.
    """
    if stream is not None:
        return [load_spec(stream, settings.streams)]
    specs, problems = load_specs(settings.streams)
    if problems:
        raise SpecError(problems)
    return specs


def plans_of(specs: Sequence[StreamSpec], settings: Settings) -> list[UpgradePlan]:
    """Plan the upgrades of streams.

    Raises:
        PlanError: The process that judges them has failed.
    """
    layout = Layout.of(settings)
    asked = {
        spec.stream: {
            "config": as_json(driver_config(spec, settings, "plan")),
            "launched": read_json(layout.config_uri(spec.stream)) or {},
        }
        for spec in specs
    }
    found = _judged(asked, settings)
    return [plan_of(spec, settings, found[spec.stream]) for spec in specs]


def _judged(asked: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Let a process that imports the project's code compare it with the states and the tables."""
    done = subprocess.run(
        [sys.executable, "-m", _JUDGE],
        input=json.dumps(asked),
        # Python puts the working directory before PYTHONPATH.
        cwd=settings.jobs.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(python_path())},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PlanError(f"the streams of {settings.jobs} could not be judged:\n{done.stderr}")
    # What the project's code prints comes before it.
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
