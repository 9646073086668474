"""Serves the result pages of state operations in Airflow's UI, to users who may read stream and verb."""

from airflow.plugins_manager import AirflowPlugin

from stateward.airflow.web.folder_app import FolderApp
from stateward.pages.access import dags_of_operation
from stateward.project.layout import Layout
from stateward.rendering.page_address import OPERATIONS

_MISSING = "No such page. An operation's page appears when it has ended, in its folder under `operations`."


def operations_app() -> FolderApp:
    """The pages of all operations, but not the requests beside them, with the stream's configuration."""
    return FolderApp("State operations", lambda: Layout.of().operations_uri, _MISSING, dags_of_operation)


class StateOperationsPlugin(AirflowPlugin):
    """Registers the pages below Airflow's base path."""

    name = "stateward_state_operations"
    # Airflow declares an instance attribute, but reads it from the class.
    fastapi_apps = [  # noqa: RUF012
        {"app": operations_app(), "url_prefix": OPERATIONS, "name": "State operations"}
    ]
