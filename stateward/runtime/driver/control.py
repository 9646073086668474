"""Reads ``control/<stream>.json``, the desired state that the control plane writes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stateward.contract import storage

_LOG = logging.getLogger(__name__)


def stop_reason(uri: str, run_id: str) -> str | None:
    """Why this launch has to drain and exit, or None.

    A missing or unreadable document is ignored: a driver started by hand has none, and a short outage of the
    storage must not stop a stream.

    Args:
        uri: The control document.
        run_id: This launch.
    """
    document = _read(uri)
    if document is None:
        return None
    asked = {"stopped": "stop", "suspended": "suspend"}.get(str(document.get("desired")))
    if asked:
        return f"asked to {asked} by {document.get('requested_by') or 'the control plane'}"
    wanted = document.get("run_id")
    if wanted and wanted != run_id:
        return f"run {wanted} is to take over"
    return None


@dataclass(frozen=True)
class LaunchReason:
    """Why the control plane started a launch.

    Attributes:
        sentence: The reason as text; empty if unknown.
        failure: Why the previous driver failed, as in the control document; None if this is no restart, or
            from a control plane of the previous release.
    """

    sentence: str = ""
    failure: Mapping[str, Any] | None = None


def reason_of_launch(uri: str, run_id: str) -> LaunchReason:
    """Why this launch was started.

    Args:
        uri: The control document.
        run_id: This launch.
    """
    document = _read(uri) or {}
    if document.get("run_id") != run_id:
        return LaunchReason()
    launch = document.get("launch")
    failure = launch.get("failure") if isinstance(launch, dict) else None
    return LaunchReason(str(document.get("reason") or ""), failure if isinstance(failure, dict) else None)


def _read(uri: str) -> dict[str, Any] | None:
    try:
        return storage.read_json(uri)
    except Exception as error:
        _LOG.warning("control document %s cannot be read: %s", uri, error)
        return None
