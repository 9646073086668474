"""`stateward logs`."""

from __future__ import annotations

import collections
import time
from pathlib import Path

from stateward.control.launchers.drivers import driver_of
from stateward.control.reconcile.observe import read_control
from stateward.platform.parts.registry import parts_of
from stateward.project.layout import Layout
from stateward.project.settings import Settings


class NoSuchLogError(RuntimeError):
    """There is no log of a part or stream of that name."""


def run(name: str, *, lines: int, follow: bool) -> None:
    """Print the end of a log, and follow it on request, unless a cluster has it."""
    settings = Settings()
    is_part = name in [part.name for part in parts_of(settings)]
    text = None if is_part else cluster_log(name, settings)
    if text is not None:
        print("\n".join(text.splitlines()[-lines:]))
        return
    path = find_log(name, settings)
    with path.open(errors="replace") as file:
        print("".join(collections.deque(file, maxlen=lines)), end="", flush=True)
        while follow:
            text = file.read()
            print(text, end="", flush=True)
            if not text:
                time.sleep(0.3)


def cluster_log(stream: str, settings: Settings) -> str | None:
    """Return the end of the log of a stream's newest driver if a cluster runs it; None otherwise.

    Raises:
        NoSuchLogError: The cluster does not answer.
        InvalidDocumentError: The control document cannot be read.
    """
    layout = Layout.of(settings)
    control = read_control(layout, stream)
    if control is None or control.launch is None or control.launch.application is None:
        return None
    try:
        return driver_of(layout.home, stream, control.launch).log_end()
    except OSError as error:
        raise NoSuchLogError(f"stream {stream}: the log of its driver cannot be read: {error}") from error


def find_log(name: str, settings: Settings) -> Path:
    """Return the log of a part, or of the newest driver of a stream.

    Raises:
        NoSuchLogError: the message lists the names that have one.
    """
    layout = Layout.of(settings)
    parts = [part.name for part in parts_of(settings)]
    if name in parts and layout.part_log(name).exists():
        return layout.part_log(name)
    newest = newest_driver_log(layout, name)
    if newest:
        return newest
    drivers = [path.name for path in layout.driver_log_dir("").glob("*") if path.is_dir()]
    raise NoSuchLogError(
        f"{name!r} has no log in {settings.home}; parts: {', '.join(parts)}; "
        f"streams with a log: {', '.join(sorted(drivers)) or 'none yet'}"
    )


def newest_driver_log(layout: Layout, stream: str) -> Path | None:
    """Return the log of the newest launch of a stream's driver, None when it was never launched."""
    logs = list(layout.driver_log_dir(stream).glob("*.log"))
    return max(logs, key=lambda path: path.stat().st_mtime, default=None)
