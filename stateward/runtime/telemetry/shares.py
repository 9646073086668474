"""The shares of dead and of late records in the last minutes. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

_WINDOW_MS = 600_000
# With fewer records a share means little: one dead record of one would be 100 %.
_LEAST_RECORDS = 100


class _Totals(NamedTuple):
    at_ms: int
    records: int
    dead: int
    late: int


class Shares:
    """Computes shares from the totals of a stream's counters, by the broker's time."""

    def __init__(self) -> None:
        self._seen: deque[_Totals] = deque()

    def add(self, at_ms: int | None, totals: Mapping[str, int]) -> dict[str, float | None]:
        """Add the totals of a batch.

        Args:
            at_ms: The broker's time in its plan, ms since 1970 UTC; None if unknown.
            totals: ``records``, ``dead`` and ``late`` of all batches so far.

        Returns:
            ``dead_share`` and ``late_share`` of the records of the last ten minutes, 0 to 1; None with fewer
            than a hundred records.
        """
        if at_ms is None:
            return {"dead_share": None, "late_share": None}
        now = _Totals(at_ms, totals["records"], totals["dead"], totals["late"])
        # After a restore the totals are smaller.
        if self._seen and now.records < self._seen[-1].records:
            self._seen.clear()
        self._seen.append(now)
        # The newest totals before the window are its start.
        while len(self._seen) > 1 and self._seen[1].at_ms <= at_ms - _WINDOW_MS:
            self._seen.popleft()
        first = self._seen[0]
        records = now.records - first.records
        if records < _LEAST_RECORDS:
            return {"dead_share": None, "late_share": None}
        return {
            "dead_share": (now.dead - first.dead) / records,
            "late_share": (now.late - first.late) / records,
        }
