"""``control/<stream>.json``: what should be, as far as a driver needs it."""

from __future__ import annotations

import logging

from spark_jobs.runtime import storage

_LOG = logging.getLogger(__name__)


def reason_to_leave(uri: str, run_id: str) -> str | None:
    """Why this launch should drain and leave, or None to go on.

    A document that is missing or cannot be read says nothing: a driver started by hand has none, and a
    storage that is away for a moment must not stop a stream.

    Args:
        uri: The control document.
        run_id: This launch.
    """
    try:
        document = storage.read_json(uri)
    except Exception as error:
        _LOG.warning("control document %s cannot be read: %s", uri, error)
        return None
    if document is None:
        return None
    if document.get("desired") == "stopped":
        return f"asked to stop by {document.get('requested_by') or 'the control plane'}"
    wanted = document.get("run_id")
    if wanted and wanted != run_id:
        return f"run {wanted} is to take over"
    return None
