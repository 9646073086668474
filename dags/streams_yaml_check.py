"""No DAG: an Airflow import error while a YAML in include/streams is invalid."""

from stateward.airflow import check_streams

check_streams("..")
