"""Serves the operator's page in Airflow's navigation, to users who are logged in."""

from airflow.plugins_manager import AirflowPlugin

from stateward.airflow.web.navigation import navigation_entry
from stateward.airflow.web.streams_app import streams_app
from stateward.rendering.page_address import STREAMS, STREAMS_PAGE

_WAVES = "M2 7c3-3 6-3 10 0s7 3 10 0M2 12c3-3 6-3 10 0s7 3 10 0M2 17c3-3 6-3 10 0s7 3 10 0"


class StreamsPagePlugin(AirflowPlugin):
    """Registers the page below Airflow's base path, and its place in the navigation."""

    name = "stateward_streams_page"
    # Airflow declares instance attributes, but reads them from the class.
    fastapi_apps = [{"app": streams_app(), "url_prefix": STREAMS, "name": "Streams"}]  # noqa: RUF012
    external_views = [navigation_entry("Streams", STREAMS_PAGE, _WAVES)]  # noqa: RUF012
