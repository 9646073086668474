"""How often a query is run again after failures in a row, and how long to wait before. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from stateward.runtime.driver.cause import DISK_FULL, Cause

FIRST_DELAY_S, LONGEST_DELAY_S = 1.0, 15.0
# After so many even a passing cause is taken for a lasting one.
_MOST = 5
# Ten minutes of the longest delay: somebody has to make room, and the stream is none the worse for waiting.
_MOST_ON_A_FULL_DISK = 42


@dataclass
class Retries:
    """Counts failures without a committed batch between them."""

    failures: int = 0
    _last_batch: int = -1

    def note(self, last_committed: int) -> None:
        """Take in one failure, and the last batch that was committed before it (-1 without one)."""
        self.failures = 1 if last_committed > self._last_batch else self.failures + 1
        self._last_batch = last_committed

    def are_used_up(self, cause: Cause) -> bool:
        """Whether the failure has come too often to be one that passes."""
        return self.failures > (_MOST_ON_A_FULL_DISK if cause == DISK_FULL else _MOST)

    @property
    def delay_s(self) -> float:
        """How long to wait now, seconds: doubles with each failure."""
        return min(FIRST_DELAY_S * 2.0 ** min(self.failures - 1, 10), LONGEST_DELAY_S)
