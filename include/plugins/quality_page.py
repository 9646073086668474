"""Serves the quality pages in Airflow's navigation, to people who are logged in."""

from urllib.parse import quote

from airflow.plugins_manager import AirflowPlugin

from include.web.quality_app import PREFIX, quality_app

_TICKED = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="24" height="24" fill="none" stroke="{colour}"'
    ' stroke-width="2" stroke-linecap="round" stroke-linejoin="round"><path d="M3 6l2 2 3-4M3 17l2 2 3-4'
    'M12 6h9M12 17h9"/></svg>'
)


def _icon(colour: str) -> str:
    return f"data:image/svg+xml,{quote(_TICKED.format(colour=colour))}"


class QualityPagePlugin(AirflowPlugin):
    """Registers the pages below Airflow's base path, and their place in the navigation."""

    name = "stateward_quality_page"
    # Airflow declares them as attributes of an instance, and reads them from the class.
    fastapi_apps = [{"app": quality_app(), "url_prefix": PREFIX, "name": "Quality"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {
            "name": "Quality",
            # Without a slash in front it is found below any base path.
            "href": f"{PREFIX.removeprefix('/')}/index.html",
            "destination": "nav",
            "nav_top_level": True,
            "url_route": "quality",
            "icon": _icon("#3f4a5f"),
            "icon_dark_mode": _icon("#d5dbe6"),
        }
    ]
