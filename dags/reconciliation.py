"""Compare the tables of each stream with its raw events: `reconcile_<stream>`."""

from stateward.airflow.dags.reconciliation import reconciliation_dags

globals().update(reconciliation_dags())
