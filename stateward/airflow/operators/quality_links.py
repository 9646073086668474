"""Links from a validation's task to the pages about its table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from airflow.sdk import BaseOperatorLink

from stateward.airflow.web.quality_app import PREFIX
from stateward.project.settings import Settings

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


class QualityOverviewLink(BaseOperatorLink):
    """The button that opens the table's page, with pass rates, trends and failures over time."""

    name = "Quality overview"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the page's path on this server."""
        base_path = urlsplit(Settings().airflow_url).path.rstrip("/")
        asked = urlencode({"stream": operator.stream, "table": operator.table})
        return f"{base_path}{PREFIX}/table.html?{asked}"
