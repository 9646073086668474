"""Airflow DAGs, one for each YAML in include/streams: `stream_<name>`."""

from airflow.sdk import DAG

from stateward.airflow.dags.streams import stream_dags
from stateward.project.settings import Settings

DAGS: dict[str, DAG] = stream_dags(Settings().streams)
globals().update(DAGS)
