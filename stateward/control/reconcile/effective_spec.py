"""The YAML by which a stream is supervised: the current one, or the last valid one while it is invalid."""

from __future__ import annotations

import logging

from stateward.control.reconcile.observe import read_control
from stateward.control.releases import release as releases
from stateward.project.layout import Layout
from stateward.project.project import PACKAGE
from stateward.project.settings import Settings
from stateward.project.spec import SpecError, StreamSpec, load_spec

_LOG = logging.getLogger(__name__)


def spec_in_force(stream: str, settings: Settings) -> StreamSpec:
    """Read a stream's YAML; while it is not sound, the one that its newest driver was launched with.

    So an edit that went wrong changes nothing: a driver that crashes meanwhile is started again as it was,
    and the stream can be stopped. What the YAML declared as desired before the edit stays declared.

    Args:
        stream: The stream.
        settings: Where everything is.

    Raises:
        SpecError: The YAML is missing or invalid, and there is no release to fall back on.
        InvalidDocumentError: The control document cannot be read.
    """
    try:
        return load_spec(stream, settings.streams)
    except SpecError as error:
        known = _launched(stream, settings)
        if known is None:
            raise
        _LOG.warning(
            "stream %s: its YAML is not used, and that of the newest driver's release is in force: %s",
            stream,
            error,
        )
        return known


def _launched(stream: str, settings: Settings) -> StreamSpec | None:
    control = read_control(Layout.of(settings), stream)
    if control is None or control.release is None:
        return None
    try:
        kept = releases.find(stream, control.release, settings)
        spec = load_spec(stream, kept.streams, kept.code / PACKAGE)
    except (OSError, releases.ReleaseError, SpecError):
        return None
    # No part of a release: the file that was kept may say what was declared long ago.
    return spec.model_copy(update={"desired": control.declared})
