"""One end for all scans of a batch.

A query whose plan has several branches has a scan for each, and Spark asks each of them on its own where the
next batch ends. Records that come between two questions would be in one branch's batch and not in another's.
So the scan that is asked first decides, and the others repeat its answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4


class Rounds:
    """One scan's part in it. All scans are on the driver's machine, and are asked one after the other.

    Each is asked once in a round, whatever the order. So one that has had the last answer begins a new round.

    Args:
        file: What the scans of one start of a query share; not there before.
    """

    def __init__(self, file: str) -> None:
        self._file = Path(file)
        self._me = uuid4().hex

    def end(self, decide: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Where the batch ends; ``decide`` is called by the first scan of a round only."""
        last = json.loads(self._file.read_text()) if self._file.exists() else None
        if last is None or self._me in last["told"]:
            last = {"end": decide(), "told": []}
        told = [*last["told"], self._me]
        # In one step: a scan that is ended while it writes leaves no half of an answer.
        half = self._file.with_suffix(".new")
        half.write_text(json.dumps({"end": last["end"], "told": told}))
        half.replace(self._file)
        end: dict[str, Any] = last["end"]
        return end


def new_rounds(folder: str) -> str:
    """A file for the scans of one start of a query; those of earlier starts are removed."""
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    for old in root.glob("round-*"):
        old.unlink(missing_ok=True)
    return str(root / f"round-{uuid4().hex}.json")
