"""The Jinja environment of pages."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

SHARED_TEMPLATES = Path(__file__).resolve().parent / "templates"
"""`base.css`, the style that all pages start with."""


def page_environment(folder: Path) -> Environment:
    """Return the environment of the templates in a folder; it escapes the values that they show.

    Args:
        folder: Where the templates are. They can include those of `SHARED_TEMPLATES`.
    """
    return Environment(
        loader=FileSystemLoader([folder, SHARED_TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
