"""Launches a driver with a wrong clock, by libfaketime; the monotonic clock stays right.

Whatever submits a driver, `spark-submit` reads ``spark-env.sh`` in the folder of `VARIABLE` first. A file
there, by the stream, says how far off the next launch is, and is taken away by it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from stateward.contract.names import ENV_DRIVER_STREAM

VARIABLE = "SPARK_CONF_DIR"
_LIBRARIES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1")
_LEFT = re.compile(r"(?:sem\.)?faketime_(?:sem|shm)_(\d+)")


def library() -> Path | None:
    """The library for multithreaded programs, if the package is installed."""
    found = (file for pattern in _LIBRARIES for file in Path("/").glob(pattern.removeprefix("/")))
    return next(found, None)


def script(preload: Path) -> str:
    """The content of ``spark-env.sh``."""
    return (
        f'clock="${VARIABLE}/${ENV_DRIVER_STREAM}"\n'
        f'if [ -n "${ENV_DRIVER_STREAM}" ] && [ -f "$clock" ]; then\n'
        '  export FAKETIME="$(cat "$clock")" FAKETIME_DONT_FAKE_MONOTONIC=1\n'
        # Otherwise waits until a time of that clock, as nearly all in a JVM, end at once.
        "  export FAKETIME_FORCE_MONOTONIC_FIX=0\n"
        '  rm "$clock"\n'
        f'  export LD_PRELOAD="{preload}"\n'
        "fi\n"
    )


@contextmanager
def clocks_in(folder: Path) -> Iterator[None]:
    """Let all launches in this block look in a folder for a wrong clock."""
    folder.mkdir(parents=True)
    before = os.environ.get(VARIABLE)
    if preload := library():
        (folder / "spark-env.sh").write_text(script(preload))
        os.environ[VARIABLE] = str(folder)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before
        remove_left()


def set_clock(folder: Path, stream: str, seconds: int) -> None:
    """Set the clock offset of a stream's next launch."""
    (folder / stream).write_text(f"{seconds:+d}")


def remove_left(folder: Path = Path("/dev/shm")) -> None:
    """Remove what the library left behind for killed processes."""
    for file in folder.iterdir() if folder.is_dir() else ():
        if (named := _LEFT.fullmatch(file.name)) and not psutil.pid_exists(int(named[1])):
            file.unlink(missing_ok=True)
