"""`stateward logs`."""

from __future__ import annotations

import collections
import time
from pathlib import Path

from stateward.platform.parts.registry import parts_of
from stateward.project.layout import Layout
from stateward.project.settings import Settings


class NoSuchLogError(RuntimeError):
    """There is no log of a part or stream of that name."""


def run(name: str, *, lines: int, follow: bool) -> None:
    """Print the end of a log, and follow it on request."""
    path = find_log(name, Settings())
    with path.open(errors="replace") as file:
        print("".join(collections.deque(file, maxlen=lines)), end="", flush=True)
        while follow:
            text = file.read()
            print(text, end="", flush=True)
            if not text:
                time.sleep(0.3)


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
