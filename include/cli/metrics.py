"""`stateward metrics`."""

from __future__ import annotations

from include.metrics.exposition import exposition
from include.platform.running import running_settings
from include.settings import Settings


def run() -> None:
    """Print the metrics of every stream, as Airflow serves them to Prometheus."""
    content, _ = exposition(running_settings(Settings()))
    print(content.decode(), end="")
