"""All DAGs of this project (docs/install-into-airflow.md)."""

from stateward.airflow import dags

globals().update(dags(".."))
