"""Serves the quality pages in Airflow's navigation, to users who are logged in."""

from airflow.plugins_manager import AirflowPlugin

from stateward.airflow.web.navigation import navigation_entry
from stateward.airflow.web.quality_app import quality_app
from stateward.rendering.page_address import QUALITY, QUALITY_PAGE

_TICKED_LIST = "M3 6l2 2 3-4M3 17l2 2 3-4M12 6h9M12 17h9"


class QualityPagePlugin(AirflowPlugin):
    """Registers the pages below Airflow's base path, and their place in the navigation."""

    name = "stateward_quality_page"
    # Airflow declares instance attributes, but reads them from the class.
    fastapi_apps = [{"app": quality_app(), "url_prefix": QUALITY, "name": "Quality"}]  # noqa: RUF012
    external_views = [navigation_entry("Quality", QUALITY_PAGE, _TICKED_LIST)]  # noqa: RUF012
