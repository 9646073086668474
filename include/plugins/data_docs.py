"""Serves Data Docs in Airflow's UI, to people who are logged in."""

from airflow.plugins_manager import AirflowPlugin

from include.layout import Layout
from include.operators.quality_report import DOCS_PREFIX
from include.web.folder_app import FolderApp

_MISSING = (
    "No such report. Reports are kept for the latest validations of each suite; the table"
    " quality_results keeps the results of all of them."
)


def data_docs_app() -> FolderApp:
    """The folder of Data Docs."""
    return FolderApp("Data Docs", lambda: Layout.of().data_docs_uri, _MISSING)


class DataDocsPlugin(AirflowPlugin):
    """Registers the pages below Airflow's base path."""

    name = "stateward_data_docs"
    # Airflow declares them as attributes of an instance, and reads them from the class.
    fastapi_apps = [{"app": data_docs_app(), "url_prefix": DOCS_PREFIX, "name": "Data Docs"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {"name": "Data Docs", "href": f"{DOCS_PREFIX}/index.html", "destination": "nav", "category": "browse"}
    ]
