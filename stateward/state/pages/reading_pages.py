"""The result pages of ``inspect`` and ``explain``: one file each, without scripts and without other hosts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jinja2 import Environment

from stateward.state.inspection.measures import BINS
from stateward.state.pages import charts, human_units
from stateward.state.pages.page import page_environment

if TYPE_CHECKING:
    from stateward.state.verbs.explain import Explanation
    from stateward.state.verbs.inspect import Inspection


def inspection_page(found: Inspection) -> str:
    """The page of an inspection, HTML."""
    template = _environment().get_template("inspect.html.j2")
    keys_line = charts.line([(sample.at_ms, sample.keys) for sample in found.growth.samples])
    return template.render(found=found, keys_line=keys_line, bins=[name for name, _ in BINS])


def explanation_page(found: Explanation) -> str:
    """The page of an explanation, HTML."""
    return _environment().get_template("explain.html.j2").render(found=found)


def _environment() -> Environment:
    environment = page_environment()
    environment.filters |= {
        "count": human_units.count,
        "room": human_units.format_bytes,
        "when": human_units.when,
        "span": human_units.span,
        "share": human_units.share,
        "ratio": human_units.ratio,
        "value": _value,
        "pretty": _pretty,
    }
    environment.globals |= {"columns": charts.columns, "percent": charts.percent}
    return environment


def _value(value: Any) -> str:
    """A field's value: a text as it is, anything else as JSON."""
    if value is None:
        return human_units.NOTHING
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
