"""The asset that stands for a table's validated rows: DAGs that read the table are scheduled on it.

It has an event for each validation without a critical failure. After a critical failure downstream DAGs wait,
and the stream keeps running.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.rendering.page_address import public

if TYPE_CHECKING:
    from airflow.sdk import Context

    from stateward.airflow.operators.quality_report import QualityReport


def valid_asset(stream: str, table: str) -> Asset:
    """Return the asset of the valid rows of a table: `<stream>.<table>.valid`."""
    return Asset(name=f"{stream}.{table}.valid", uri=Layout.of().table_uri(f"{table}_valid"))


def announce(context: Context, report: QualityReport) -> dict[str, Any]:
    """Add the validated version and the warnings to the event of this task.

    Returns:
        The extra of the event.
    """
    extra: dict[str, Any] = {
        "stream": report.stream,
        "table": report.table,
        "version": report.version,
        "warnings": [{"name": item.name, "observed": item.observed} for item in report.failed],
        "report": public(Settings().airflow_url, report.address),
    }
    context["outlet_events"][valid_asset(report.stream, report.table)].extra.update(extra)
    return extra
