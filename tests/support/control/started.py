"""Streams that were started once, for the DAGs that only such streams have."""

from __future__ import annotations

from stateward.contract.storage import write_json
from stateward.project.layout import Layout
from stateward.project.settings import Settings


def mark_started(*streams: str) -> None:
    """Write the control document of streams in the installation of the environment; without names, of all."""
    settings = Settings()
    for stream in streams or [file.stem for file in settings.streams.glob("*.yaml")]:
        write_json(Layout.of(settings).control_uri(stream), {"stream": stream})
