"""Folders of a benchmark."""

from __future__ import annotations

import shutil
from pathlib import Path


def emptied(folder: Path) -> Path:
    """The folder, with nothing in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
