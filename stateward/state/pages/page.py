"""An operation's result as a page that needs nothing beside itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stateward.rendering.environment import page_environment
from stateward.rendering.human_units import NOTHING

TEMPLATES = Path(__file__).resolve().parent / "templates"


def render(result: Mapping[str, Any], more: str = "") -> str:
    """The page.

    Args:
        result: The document `result.json`.
        more: HTML for its end; not escaped.
    """
    environment = page_environment(TEMPLATES)
    environment.filters |= {"cell": _cell}
    state, kind = _state(result)
    given = {name: value for name, value in result["arguments"].items() if value not in (None, "")}
    return environment.get_template("operation.html.j2").render(
        result=result, state=state, kind=kind, given=given, more=more
    )


def _state(result: Mapping[str, Any]) -> tuple[str, str]:
    if result["state"] == "done" and not result["good"]:
        return "done, and something is wrong", "critical"
    return result["state"], "ok" if result["state"] == "done" else "critical"


def _cell(cell: Any) -> str:
    if cell is None:
        return NOTHING
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:,}" if isinstance(cell, int | float) else str(cell)
