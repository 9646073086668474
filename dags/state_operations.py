"""Operate on a stream's state: `state_operations` and `state_inspection`."""

from stateward.airflow.dags.state_operations import state_operation_dags

globals().update(state_operation_dags())
