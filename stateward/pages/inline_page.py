"""Self-contained pages: style and script are inline, and nothing else may run."""

from __future__ import annotations

import base64
import functools
import hashlib
from dataclasses import dataclass

from jinja2 import Environment
from markupsafe import Markup

from stateward.rendering.environment import page_environment

_SHARED_STYLES, _SCRIPT = ("base.css", "page.css"), "page.js"


@dataclass(frozen=True)
class SelfContainedPage:
    """A page in Airflow's colours that refreshes itself while it is visible.

    Attributes:
        template: Its template, which extends `page.html.j2`.
        style: Its style sheet, added to that of all pages.
        refresh_s: Time between two refreshes, seconds.
    """

    template: str
    style: str
    refresh_s: int

    def render(self, **values: object) -> str:
        """Render the page with the values of its template."""
        return (
            _environment()
            .get_template(self.template)
            .render(
                **values,
                style=Markup(self._styles()),
                script=Markup(_text(_SCRIPT)),
                refresh_s=self.refresh_s,
            )
        )

    def content_policy(self) -> str:
        """Return its Content-Security-Policy: only its own style and script, nothing from the data."""
        return (
            f"default-src 'none'; script-src {_hash(_text(_SCRIPT))}; style-src {_hash(self._styles())};"
            " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
        )

    def _styles(self) -> str:
        return "".join(_text(name) for name in (*_SHARED_STYLES, self.style))


@functools.cache
def _environment() -> Environment:
    return page_environment(__package__)


@functools.cache
def _text(name: str) -> str:
    environment = _environment()
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


@functools.cache
def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
