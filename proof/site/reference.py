"""Settings, commands, the Python API, and the tables of metrics and limits."""

from __future__ import annotations

from datetime import timedelta

import typer.main
from typer.cli import get_docs_for_click

from stateward.cli.main import app
from stateward.contract.measures import MEASURES, Unit
from stateward.contract.names import ENV_PREFIX
from stateward.metrics.catalogue import FAMILIES
from stateward.project.durations import format_duration
from stateward.project.settings import CHECKOUT, Settings

# What the author of a stream imports.
API = (
    "stateward.runtime.api.key_logic",
    "stateward.runtime.api.stream_job",
    "stateward.runtime.api.native_job",
    "stateward.runtime.api.record_fields",
    "stateward.runtime.api.row_table",
    "stateward.contract.columns",
    "stateward.contract.stream_settings",
    "stateward.testing.cut_property",
    "stateward.testing.cases",
    "stateward.testing.state_versions",
    "stateward.testing.project_checks",
    "stateward.testing.declarations",
    "stateward.testing.fixtures",
)

UNITS: dict[Unit, str] = {
    "seconds": "duration",
    "bytes": "bytes",
    "count": "number",
    "rate": "records/s",
    "share": "share, 0 to 1",
    "factor": "factor",
}


def settings() -> str:
    """Each setting of an installation with its variable, default and meaning."""
    lines = ["# Settings", "", "| variable | default | meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = "computed" if field.default_factory else str(field.default).replace(f"{CHECKOUT}/", "")
        lines.append(f"| `{ENV_PREFIX}{name.upper()}` | `{default}` | {field.description or ''} |")
    return "\n".join(lines) + "\n"


def commands() -> str:
    """The help of each command."""
    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="stateward")
    return text.replace("# `stateward`", "# Commands", 1)


def api() -> str:
    """The modules that the author of a stream imports."""
    return "# Python API\n\n" + "\n".join(f"::: {module}\n" for module in API)


def metrics() -> str:
    """Each metric with its type, labels and meaning."""
    lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for family in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        lines.append(f"| `{family.name}` | {family.kind} | {labels} | {family.help} |")
    return "\n".join(lines)


def limits() -> str:
    """Each measure of `health.limits` with its unit and the defaults of its limits."""
    lines = ["| `limits.` | what is measured | unit | warn | critical |", "|---|---|---|---|---|"]
    for name, measure in MEASURES.items():
        levels = " | ".join(_limit(at, measure.unit) for at in (measure.warn, measure.critical))
        lines.append(f"| `{name}` | {measure.help} | {UNITS[measure.unit]} | {levels} |")
    return "\n".join(lines)


def _limit(value: float | None, unit: Unit) -> str:
    if value is None:
        return "–"
    return format_duration(timedelta(seconds=value)) if unit == "seconds" else f"{value:,}"
