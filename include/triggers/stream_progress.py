"""Class path of 0.1; goes with the release after 0.2."""

from stateward.airflow.triggers.stream_progress import StreamProgressTrigger

__all__ = ["StreamProgressTrigger"]
