"""Pages of the site that follow from the code: settings, commands and the Python API. A hook of mkdocs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer.main
from mkdocs.structure.files import File
from typer.cli import get_docs_for_click

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

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


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    pages = {"settings": settings(), "commands": commands(), "api": api()}
    for name, text in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def settings() -> str:
    """Each setting of an installation with its variable, default and meaning."""
    from stateward.contract.names import ENV_PREFIX
    from stateward.project.settings import CHECKOUT, Settings

    lines = ["# Settings", "", "| variable | default | meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = "computed" if field.default_factory else str(field.default).replace(f"{CHECKOUT}/", "")
        lines.append(f"| `{ENV_PREFIX}{name.upper()}` | `{default}` | {field.description or ''} |")
    return "\n".join(lines) + "\n"


def commands() -> str:
    """The help of each command."""
    from stateward.cli.main import app

    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="stateward")
    return text.replace("# `stateward`", "# Commands", 1)


def api() -> str:
    """The modules that the author of a stream imports."""
    return "# Python API\n\n" + "\n".join(f"::: {module}\n" for module in API)
