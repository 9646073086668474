"""Class path of 0.1; goes with the release after 0.2."""

from stateward.airflow.notifiers.json_lines import JsonLinesNotifier

__all__ = ["JsonLinesNotifier"]
