"""Care for the state of each stream on schedule: `state_<stream>`."""

from stateward.airflow.dags.state_care import state_care_dags

globals().update(state_care_dags())
