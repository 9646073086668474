"""``control/<stream>.json``: what should be, as far as a driver needs it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stateward.contract import storage

_LOG = logging.getLogger(__name__)


def reason_to_leave(uri: str, run_id: str) -> str | None:
    """Why this launch should drain and leave, or None to go on.

    A document that is missing or cannot be read says nothing: a driver started by hand has none, and a
    storage that is away for a moment must not stop a stream.

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
    """Why a launch was started, as the control plane has written it.

    Attributes:
        sentence: In words; empty when it does not say.
        failure: Why the driver before it failed, as in the control document; None if this was no restart, and
            from a control plane of the last release.
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
