"""Serves the operator's page in Airflow's navigation, to people who are logged in."""

from urllib.parse import quote

from airflow.plugins_manager import AirflowPlugin

from include.web.streams_app import PREFIX, streams_app

_WAVES = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="24" height="24" fill="none" stroke="{colour}"'
    ' stroke-width="2" stroke-linecap="round"><path d="M2 7c3-3 6-3 10 0s7 3 10 0M2 12c3-3 6-3 10 0s7 3 10 0'
    'M2 17c3-3 6-3 10 0s7 3 10 0"/></svg>'
)


def _icon(colour: str) -> str:
    return f"data:image/svg+xml,{quote(_WAVES.format(colour=colour))}"


class StreamsPagePlugin(AirflowPlugin):
    """Registers the page below Airflow's base path, and its place in the navigation."""

    name = "stateward_streams_page"
    # Airflow declares them as attributes of an instance, and reads them from the class.
    fastapi_apps = [{"app": streams_app(), "url_prefix": PREFIX, "name": "Streams"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {
            "name": "Streams",
            # Without a slash in front it is found below any base path.
            "href": f"{PREFIX.removeprefix('/')}/index.html",
            "destination": "nav",
            "nav_top_level": True,
            "url_route": "streams",
            "icon": _icon("#3f4a5f"),
            "icon_dark_mode": _icon("#d5dbe6"),
        }
    ]
