"""`stateward metrics`."""

from __future__ import annotations

from stateward.metrics.exposition import exposition
from stateward.platform.running import running_settings
from stateward.project.settings import Settings


def run() -> None:
    """Print the metrics of every stream, as Airflow serves them to Prometheus."""
    content, _ = exposition(running_settings(Settings()))
    print(content.decode(), end="")
