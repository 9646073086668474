"""Prevents a deadlock of the API server when Airflow's database is SQLite (docs/decisions/0009)."""

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from stateward.airflow.web.serialize_writes import OneWriteAtATime


class OneWritePlugin(AirflowPlugin):
    """Registers the middleware, if it is needed."""

    name = "stateward_one_write"
    fastapi_root_middlewares = (
        [{"middleware": OneWriteAtATime, "name": "One write at a time"}]
        if conf.get("database", "sql_alchemy_conn").startswith("sqlite")
        else []
    )
