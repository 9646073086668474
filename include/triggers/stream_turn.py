"""Class paths of 0.1; they go with the release after 0.2."""

from stateward.airflow.triggers.stream_turn import StreamBackTrigger, StreamDrainedTrigger

__all__ = ["StreamBackTrigger", "StreamDrainedTrigger"]
