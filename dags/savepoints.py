"""Make savepoints of each stream on schedule: `savepoints_<stream>`."""

from stateward.airflow.dags.savepoints import savepoints_dags

globals().update(savepoints_dags())
