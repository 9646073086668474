"""An entry in Airflow's navigation that opens a page inside Airflow's UI."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

_DRAWING = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="24" height="24" fill="none" stroke-linecap="round"'
    ' stroke-linejoin="round"><path stroke="{around}" stroke-width="5" d="{path}"/>'
    '<path stroke="{colour}" stroke-width="2" d="{path}"/></svg>'
)
# Airflow shows the open entry on a dark background without changing its icon. The rim, invisible otherwise,
# keeps the icon readable there.
_ON_LIGHT = {"colour": "#3f4a5f", "around": "#ffffff"}
_ON_DARK = {"colour": "#d5dbe6", "around": "none"}


def below_base(page: str) -> str:
    """Return the address of a page as Airflow's UI, whose base is its base path, links to it."""
    return page.removeprefix("/")


def navigation_entry(name: str, page: str, path: str) -> dict[str, Any]:
    """Return the external view of an Airflow plugin.

    Args:
        name: The entry's name; in lower case it is the entry's route in Airflow.
        page: The address of the page below Airflow's base path.
        path: The icon, 24 by 24 units, as the attribute `d` of an SVG path.
    """
    return {
        "name": name,
        "href": below_base(page),
        "destination": "nav",
        "nav_top_level": True,
        # With a route Airflow shows it inside its own page; without one, as an external link.
        "url_route": name.lower(),
        "icon": _icon(_ON_LIGHT, path),
        "icon_dark_mode": _icon(_ON_DARK, path),
    }


def _icon(colours: dict[str, str], path: str) -> str:
    return f"data:image/svg+xml,{quote(_DRAWING.format(path=path, **colours))}"
