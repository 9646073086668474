"""Export the state of each stream on schedule: `export_<stream>`."""

from stateward.airflow.dags.state_exports import state_export_dags

globals().update(state_export_dags())
