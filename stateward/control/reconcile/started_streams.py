"""The streams that were ever started. The others have one DAG each, which starts them, and no schedule."""

from __future__ import annotations

import logging

from stateward.contract.storage import exists
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec, load_specs

_LOG = logging.getLogger(__name__)


def started_specs(settings: Settings) -> list[StreamSpec]:
    """Return the valid YAMLs of streams that were started, at least once."""
    layout = Layout.of(settings)
    return [spec for spec in load_specs(settings.streams)[0] if was_started(layout, spec.stream)]


def was_started(layout: Layout, stream: str) -> bool:
    """Return whether a stream was started, at least once."""
    try:
        return exists(layout.control_uri(stream))
    except OSError as error:
        # A storage that is away for a moment takes no DAG away; its first task looks again.
        _LOG.warning("stream %s: cannot tell whether it was started: %s", stream, error)
        return True
