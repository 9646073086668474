"""Airflow DAGs, one for each YAML in include/streams: `stream_<name>`."""

from airflow.sdk import DAG

from include.settings import Settings
from include.stream_dags import stream_dags

DAGS: dict[str, DAG] = stream_dags(Settings().streams)
globals().update(DAGS)
