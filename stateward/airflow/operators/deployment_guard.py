"""Whether a stream has ever been deployed, for what happens on schedule."""

from __future__ import annotations

import logging

from stateward.control.reconcile.observe import read_control
from stateward.project.layout import Layout
from stateward.project.settings import Settings

_LOG = logging.getLogger(__name__)


def was_deployed(stream: str) -> bool:
    """Tell whether a stream has been asked to run, now or in the past; the task's log says if it never was.

    Raises:
        DocumentError: Its control document cannot be read.
    """
    if read_control(Layout.of(Settings()), stream) is not None:
        return True
    _LOG.info(
        "stream %s was never deployed, so there is nothing to be done on schedule: everything after this is "
        "skipped. Trigger stream_%s with the action run to deploy it.",
        stream,
        stream,
    )
    return False
