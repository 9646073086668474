"""A state operation keeps a stream stopped: a note in the control document, beside what is desired.

What is desired stays as it is, so that the end of the hold needs nothing more: a stream that should run
starts again, one that was stopped stays stopped, and a person may change their mind meanwhile.
"""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from stateward.contract.reading import as_json
from stateward.contract.storage import write_json
from stateward.contract.stream_control import Control, Hold
from stateward.control.reconcile.executor import locked, new_run_id
from stateward.control.reconcile.observe import read_control
from stateward.project.layout import Layout


def hold(layout: Layout, stream: str, by: str, why: str, now: datetime) -> Hold | None:
    """Keep a stream stopped from now on; harmless when `by` does so already.

    A driver that runs is asked to drain. A stream that was never deployed has nothing to be held.

    Args:
        layout: Where its documents lie.
        stream: The stream.
        by: The DAG run, `<dag id>/<run id>`.
        why: What it does.
        now: The time, aware.

    Returns:
        None on success, otherwise the hold of another run.

    Raises:
        InvalidDocumentError: The control document cannot be read.
    """
    with locked(layout, stream):
        control = read_control(layout, stream)
        if control is None or (control.hold is not None and control.hold.by == by):
            return None
        if control.hold is not None:
            return control.hold
        _write(layout, _held(control, Hold(by, why, now)))
        return None


def _held(control: Control, mark: Hold) -> Control:
    if control.desired != "running":
        return replace(control, hold=mark)
    # A driver drains when the run is no longer its own; the new one is launched when the hold has ended.
    return replace(
        control,
        hold=mark,
        run_id=new_run_id(mark.at),
        requested_at=mark.at,
        requested_by=mark.by,
        reason=f"after {mark.why}",
        restarts=(),
    )


def held_by(layout: Layout, stream: str) -> Hold | None:
    """Return who keeps a stream stopped.

    Raises:
        InvalidDocumentError: The control document cannot be read.
    """
    control = read_control(layout, stream)
    return control.hold if control else None


def release_hold(layout: Layout, stream: str, by: str, release: str | None = None) -> bool:
    """End the hold of `by`; what is desired counts again.

    Args:
        layout: Where its documents lie.
        stream: The stream.
        by: The DAG run, `<dag id>/<run id>`.
        release: What to start it with (`stateward.control.releases.release`); None: current code and YAML.

    Returns:
        Whether there was one.

    Raises:
        InvalidDocumentError: The control document cannot be read.
    """
    with locked(layout, stream):
        control = read_control(layout, stream)
        if control is None or control.hold is None or control.hold.by != by:
            return False
        _write(layout, replace(control, hold=None, release=release))
        return True


def launched_release(layout: Layout, stream: str) -> str | None:
    """Return the release of the newest launch; None when it is not known.

    Raises:
        InvalidDocumentError: The control document cannot be read.
    """
    control = read_control(layout, stream)
    return control.release if control else None


def _write(layout: Layout, control: Control) -> None:
    write_json(layout.control_uri(control.stream), as_json(control))
