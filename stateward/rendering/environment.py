"""The Jinja environment of pages."""

from __future__ import annotations

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined

_SHARED = "stateward.rendering"


def templates_of(package: str) -> BaseLoader:
    """Return the loader of a package's templates, and of those that all pages share, such as `base.css`.

    The package may be in a zip, from which jobs on a cluster import it.
    """
    return ChoiceLoader([PackageLoader(package), PackageLoader(_SHARED)])


def page_environment(package: str) -> Environment:
    """Return the environment of a package's templates; it escapes the values that they show."""
    return Environment(
        loader=templates_of(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
