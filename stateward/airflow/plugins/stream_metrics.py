"""Serves the metrics of every stream at `/stateward/metrics` (docs/metrics.md)."""

from airflow.plugins_manager import AirflowPlugin

from stateward.airflow.web.metrics_app import WithoutSlash, metrics_app
from stateward.rendering.page_address import METRICS


class StreamMetricsPlugin(AirflowPlugin):
    """Registers the metrics below Airflow's base path."""

    name = "stateward_stream_metrics"
    # Airflow declares instance attributes, but reads them from the class.
    fastapi_apps = [{"app": metrics_app(), "url_prefix": METRICS, "name": "Metrics"}]  # noqa: RUF012
    fastapi_root_middlewares = [{"middleware": WithoutSlash, "name": "Metrics"}]  # noqa: RUF012
