"""Which code runs: the release, the commit it was checked out from, and Spark's release."""

from __future__ import annotations

import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
_TIMEOUT_S = 10


def code_version() -> dict[str, str | None]:
    """``stateward``, ``spark`` and ``commit``; None for what cannot be found out."""
    return {"stateward": _release("stateward"), "spark": _release("pyspark"), "commit": _commit()}


def _release(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit, with ``-dirty`` if files were changed since; None without a repository."""
    command = ["git", "-C", str(_ROOT), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
