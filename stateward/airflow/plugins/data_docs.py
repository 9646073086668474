"""Serves Data Docs in Airflow's UI, to users who may read the stream."""

from airflow.plugins_manager import AirflowPlugin

from stateward.airflow.web.folder_app import FolderApp
from stateward.airflow.web.navigation import below_base
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.rendering.page_address import DATA_DOCS, DATA_DOCS_PAGE

_MISSING = (
    "No such report. Reports are kept for the latest validations of each suite; the table"
    " quality_results keeps the results of all of them."
)


def data_docs_app() -> FolderApp:
    """The folder of Data Docs."""
    return FolderApp("Data Docs", lambda: Layout.of().data_docs_uri, _MISSING, _dags)


def _dags(path: str) -> list[str] | None:
    from stateward.pages.access import dags_of_report
    from stateward.pages.streams.documents import known_specs

    return dags_of_report(path, known_specs(Settings().streams)[0])


class DataDocsPlugin(AirflowPlugin):
    """Registers the pages below Airflow's base path."""

    name = "stateward_data_docs"
    # Airflow declares instance attributes, but reads them from the class.
    fastapi_apps = [{"app": data_docs_app(), "url_prefix": DATA_DOCS, "name": "Data Docs"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {
            "name": "Data Docs",
            "href": below_base(DATA_DOCS_PAGE),
            "destination": "nav",
            "category": "browse",
        }
    ]
