"""How Data Docs look: Great Expectations' pages without scripts and without other hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from great_expectations.render.view.view import DefaultJinjaIndexPageView, DefaultJinjaPageView
from jinja2 import ChoiceLoader, FileSystemLoader

_TEMPLATES = Path(__file__).resolve().parent / "templates"


def _prefer_own_templates(view: Any) -> None:
    # Great Expectations looks into a custom folder last, which can add templates but not replace one.
    view.env.loader = ChoiceLoader([FileSystemLoader(_TEMPLATES), view.env.loader])


class OfflinePageView(DefaultJinjaPageView):
    """Renders the page of one validation or one suite."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        _prefer_own_templates(self)


class OfflineIndexView(DefaultJinjaIndexPageView):
    """Renders the list of validations and suites."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        _prefer_own_templates(self)
