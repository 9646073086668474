"""The same end offsets for all scans of a batch.

A query whose plan has several branches has one scan per branch, and Spark requests the end of the next batch
from each of them. A record that arrives between two requests would be in the batch of one branch only. So the
first scan decides, and the others repeat its answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4


class ScanBarrier:
    """One scan's side of the barrier. All scans run on the driver's machine, one after the other.

    Spark calls each scan once per round, in any order. A scan that already has the last answer starts a new
    round.

    Args:
        file: The file that the scans of one start of a query share; missing before the first round.
    """

    def __init__(self, file: str) -> None:
        self._file = Path(file)
        self._me = uuid4().hex

    def end(self, decide: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The end of the batch; only the first scan of a round calls ``decide``."""
        last = json.loads(self._file.read_text()) if self._file.exists() else None
        if last is None or self._me in last["told"]:
            last = {"end": decide(), "told": []}
        told = [*last["told"], self._me]
        # Atomic: a scan that is killed while it writes leaves no partial file.
        half = self._file.with_suffix(".new")
        half.write_text(json.dumps({"end": last["end"], "told": told}))
        half.replace(self._file)
        end: dict[str, Any] = last["end"]
        return end


def new_barrier_file(folder: str) -> str:
    """Choose the file for the scans of one start of a query and remove those of earlier starts."""
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    for old in root.glob("round-*"):
        old.unlink(missing_ok=True)
    return str(root / f"round-{uuid4().hex}.json")
