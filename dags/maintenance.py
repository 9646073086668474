"""Compact and vacuum all tables: `maintenance`."""

from stateward.airflow.dags.maintenance import maintenance_dags

globals().update(maintenance_dags())
