"""How far a tick has to go beyond the last event for every timeout to fire."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

# Without a stream that reads the topic: a day, the longest gap an event may ask for, and an hour.
FALLBACK = timedelta(hours=25)


def tick_after(topic: str, streams: Path) -> timedelta:
    """Return the longest timeout plus allowed lateness of the streams that read `topic`."""
    from stateward.project.spec import load_specs

    specs, _ = load_specs(streams)
    return max((spec.longest_timeout for spec in specs if topic in spec.source.names), default=FALLBACK)
