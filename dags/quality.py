"""Validate the tables of each stream: `quality_<stream>`."""

from stateward.airflow.dags.quality import quality_dags

globals().update(quality_dags())
