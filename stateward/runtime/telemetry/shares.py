"""Which share of the records of the last minutes was dead, and which late. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

_WINDOW_MS = 600_000
# Of fewer records a share says little: one that is dead of one would be all.
_LEAST_RECORDS = 100


class _Totals(NamedTuple):
    at_ms: int
    records: int
    dead: int
    late: int


class Shares:
    """Follows the totals of a stream's counters, by the broker's time."""

    def __init__(self) -> None:
        self._seen: deque[_Totals] = deque()

    def see(self, at_ms: int | None, totals: Mapping[str, int]) -> dict[str, float | None]:
        """Take in the totals of a batch.

        Args:
            at_ms: The broker's time by which it was planned, ms since 1970 UTC; None if nobody asked for it.
            totals: ``records``, ``dead`` and ``late`` of all batches so far.

        Returns:
            ``dead_share`` and ``late_share`` of the records of the last ten minutes, 0 to 1; None of fewer
            than a hundred.
        """
        if at_ms is None:
            return {"dead_share": None, "late_share": None}
        now = _Totals(at_ms, totals["records"], totals["dead"], totals["late"])
        # A restore goes back to an earlier count.
        if self._seen and now.records < self._seen[-1].records:
            self._seen.clear()
        self._seen.append(now)
        # The newest of those before the window is where it begins.
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
