"""The result pages of operations: one file each, without scripts and without other hosts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from jinja2 import Environment

from stateward.rendering.charts import Drawing, columns, draw, percent
from stateward.rendering.environment import page_environment
from stateward.rendering.human_units import (
    NOTHING,
    format_bytes,
    format_count,
    format_duration,
    format_percent,
    format_timestamp,
)
from stateward.state.reader.measures import BINS

if TYPE_CHECKING:
    from stateward.state.inspection.sizes import Sample
    from stateward.state.verbs.explain import Explanation
    from stateward.state.verbs.inspect import Inspection


def render(result: Mapping[str, Any]) -> str:
    """The page of an operation, HTML, from the document `result.json`."""
    state, kind = result["state"], "ok" if result["state"] == "done" else "critical"
    if state == "done" and not result["good"]:
        state, kind = "done, and something is wrong", "critical"
    given = {name: value for name, value in result["arguments"].items() if value not in (None, "")}
    template = _environment().get_template("operation.html.j2")
    return template.render(result=result, state=state, kind=kind, given=given)


def inspection_page(found: Inspection) -> str:
    """The page of an inspection, HTML."""
    template = _environment().get_template("inspect.html.j2")
    return template.render(
        found=found, keys_line=_keys_line(found.growth.samples), bins=[name for name, _ in BINS]
    )


def explanation_page(found: Explanation) -> str:
    """The page of an explanation, HTML."""
    return _environment().get_template("explain.html.j2").render(found=found)


def _keys_line(samples: Sequence[Sample]) -> Drawing | None:
    """Draw the keys over time; None when fewer than two samples differ in time."""
    series = tuple((datetime.fromtimestamp(one.at_ms / 1000, UTC), float(one.keys)) for one in samples)
    if not series or series[0][0] == series[-1][0]:
        return None
    begin, end = series[0][0], series[-1][0]
    return draw(series, begin, end, apart=end - begin)


def _environment() -> Environment:
    environment = page_environment(__package__)
    environment.filters |= {
        "cell": _cell,
        "count": format_count,
        "size": format_bytes,
        "timestamp": format_timestamp,
        "duration": lambda ms: format_duration(None if ms is None else ms / 1000),
        "share": lambda part: format_percent(None if part is None else part * 100),
        "ratio": lambda value: NOTHING if value is None else f"{value:.2f}",
        "value": _value,
        "pretty": _pretty,
    }
    environment.globals |= {"columns": columns, "percent": percent}
    return environment


def _cell(cell: Any) -> str:
    if cell is None:
        return NOTHING
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:,}" if isinstance(cell, int | float) else str(cell)


def _value(value: Any) -> str:
    """A field's value: a text as it is, anything else as JSON."""
    if value is None:
        return NOTHING
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
