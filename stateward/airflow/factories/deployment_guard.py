"""The guard of scheduled tasks: whether a stream was ever deployed."""

from __future__ import annotations

import logging

from stateward.control.reconcile.observe import read_control
from stateward.project.layout import Layout
from stateward.project.settings import Settings

_LOG = logging.getLogger(__name__)


def was_deployed(stream: str) -> bool:
    """Tell whether a stream was ever deployed; logs it otherwise.

    Raises:
        InvalidDocumentError: Its control document cannot be read.
    """
    if read_control(Layout.of(Settings()), stream) is not None:
        return True
    _LOG.info(
        "stream %s was never deployed, so the tasks after this one are skipped. Trigger stream_%s with the"
        " action run to deploy it.",
        stream,
        stream,
    )
    return False
