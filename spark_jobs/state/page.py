"""An operation's result as a page that needs nothing beside itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;margin:.5rem 0 1.5rem}"
    "th,td{border:1px solid #ccc;padding:.25rem .6rem;text-align:left;vertical-align:top}"
    "th{background:#f3f3f3}.done{color:#176b2c}.refused,.failed,.wrong{color:#a11}.dry{color:#666}"
)


def render(result: Mapping[str, Any], more: str = "") -> str:
    """The page.

    Args:
        result: The document `result.json`.
        more: HTML for its end; not escaped.
    """
    title = f"{result['verb']} {result['stream']}"
    state, kind = _state(result)
    dry = '<p class="dry">A dry run: nothing was changed.</p>' if result["dry_run"] else ""
    message = f"<p>{escape(result['message'])}</p>" if result["message"] else ""
    lines = "".join(f"<p>{escape(line)}</p>" for line in result["lines"])
    listings = "".join(_listing(listing) for listing in result["listings"])
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f'<p><strong class="{kind}">{escape(state)}</strong>, operation {escape(result["operation"])}, '
        f"{escape(result['began_at'])} to {escape(result['ended_at'])}</p>"
        f"{dry}{message}{lines}{listings}{more}</body></html>\n"
    )


def _state(result: Mapping[str, Any]) -> tuple[str, str]:
    if result["state"] == "done" and not result["good"]:
        return "done, and something is wrong", "wrong"
    return result["state"], result["state"]


def _listing(listing: Mapping[str, Any]) -> str:
    rows = "".join(_row(row, "td") for row in listing["rows"])
    return f"<h2>{escape(listing['title'])}</h2><table>{_row(listing['columns'], 'th')}{rows}</table>"


def _row(cells: Sequence[Any], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{_cell(cell)}</{tag}>" for cell in cells) + "</tr>"


def _cell(cell: Any) -> str:
    if cell is None:
        return ""
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else escape(str(cell))
