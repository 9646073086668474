"""Class path of 0.1; goes with the release after 0.2."""

from stateward.airflow.notifiers.task_log import TaskLogNotifier

__all__ = ["TaskLogNotifier"]
