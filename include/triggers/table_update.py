"""Class path of 0.1; goes with the release after 0.2."""

from stateward.airflow.triggers.table_update import TableUpdateTrigger

__all__ = ["TableUpdateTrigger"]
