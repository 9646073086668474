"""The files of results: a line of JSON for each run, with the Python that made it."""

from __future__ import annotations

import json
import platform
import sys
import sysconfig
from pathlib import Path
from typing import Any


def append_result(file: Path, result: dict[str, Any]) -> None:
    """Add a result to a file, with ``python_build``.

    The same code takes 10 to 25 % less time on a Python that was built with optimisations, so results of
    different builds cannot be compared.
    """
    with file.open("a") as results:
        results.write(json.dumps({**result, "python_build": python_build()}, default=str) + "\n")


def python_build() -> dict[str, str]:
    """The version of this Python, where it is, and the options that it was built with.

    Debian's names no optimisation among the options, and has them.
    """
    return {
        "version": platform.python_version(),
        "executable": str(Path(sys.executable).resolve()),
        "config_args": sysconfig.get_config_var("CONFIG_ARGS") or "",
    }
