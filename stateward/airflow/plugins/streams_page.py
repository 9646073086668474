"""Serves the operator's page in Airflow's navigation, to users who are logged in."""

from airflow.plugins_manager import AirflowPlugin

from stateward.airflow.web.navigation import navigation_entry
from stateward.airflow.web.streams_app import PREFIX, streams_app

_WAVES = "M2 7c3-3 6-3 10 0s7 3 10 0M2 12c3-3 6-3 10 0s7 3 10 0M2 17c3-3 6-3 10 0s7 3 10 0"


class StreamsPagePlugin(AirflowPlugin):
    """Registers the page below Airflow's base path, and its place in the navigation."""

    name = "stateward_streams_page"
    # Airflow declares instance attributes, but reads them from the class.
    fastapi_apps = [{"app": streams_app(), "url_prefix": PREFIX, "name": "Streams"}]  # noqa: RUF012
    external_views = [navigation_entry("Streams", PREFIX, _WAVES)]  # noqa: RUF012
