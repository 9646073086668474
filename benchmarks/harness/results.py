"""The files of results: a line of JSON for each run, with the Python that made it."""

from __future__ import annotations

import json
import platform
import sys
import sysconfig
from pathlib import Path
from typing import Any

from stateward.project.settings import CHECKOUT

PUBLISHED = CHECKOUT / "docs" / "results"
"""The results of which the pages are made, wherever they were measured."""


def append_result(file: Path, result: dict[str, Any]) -> None:
    """Add a result to a file, with ``python_build``.

    The same code takes 10 to 25 % less time on a Python that was built with optimisations, so results of
    different builds cannot be compared.
    """
    with file.open("a") as results:
        results.write(json.dumps({**result, "python_build": python_build()}, default=str) + "\n")


def publish(own: Path, published: Path = PUBLISHED) -> None:
    """Add the results of this machine to the published ones, except those of files that no commit has.

    Args:
        own: Folder of the files of this machine.
        published: Folder of the others.
    """
    published.mkdir(exist_ok=True)
    for file in sorted(own.glob("*.jsonl")):
        there = published / file.name
        known = there.read_text().splitlines() if there.exists() else []
        new = [line for line in file.read_text().splitlines() if line not in known and not _is_dirty(line)]
        if new:
            there.write_text("\n".join([*known, *new]) + "\n")


def _is_dirty(line: str) -> bool:
    return str(json.loads(line).get("commit", "")).endswith("-dirty")


def python_build() -> dict[str, str]:
    """The version of this Python, where it is, and the options that it was built with.

    Debian's names no optimisation among the options, and has them.
    """
    return {
        "version": platform.python_version(),
        "executable": str(Path(sys.executable).resolve()),
        "config_args": sysconfig.get_config_var("CONFIG_ARGS") or "",
    }
