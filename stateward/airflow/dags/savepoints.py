"""For the file `dags/savepoints.py` of a project of release 0.2; removed in the release after 0.3."""

from stateward.airflow.dags.state_care import state_care_dags as savepoints_dags

__all__ = ["savepoints_dags"]
