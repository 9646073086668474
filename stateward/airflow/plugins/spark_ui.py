"""Serves Spark's own UI of each driver below Airflow's address, to users who may read the stream's DAG."""

from airflow.plugins_manager import AirflowPlugin

from stateward.airflow.web.spark_ui_app import spark_ui_app
from stateward.rendering.page_address import SPARK


class SparkUiPlugin(AirflowPlugin):
    """Registers the pages below Airflow's base path."""

    name = "stateward_spark_ui"
    # Airflow declares an instance attribute, but reads it from the class.
    fastapi_apps = [{"app": spark_ui_app(), "url_prefix": SPARK, "name": "Spark UI"}]  # noqa: RUF012
