"""Limit and delay of a query's restarts after consecutive failures. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from stateward.contract.stream_status import Cause
from stateward.runtime.cause import DISK_FULL, STORAGE

FIRST_DELAY_S, LONGEST_DELAY_S = 1.0, 15.0
# After so many restarts even a transient cause counts as lasting.
_MAX_RETRIES = 5
# Ten minutes at the longest delay: waiting does no harm.
_MAX_RETRIES_WAITED_FOR = 42
WAITED_FOR = {
    DISK_FULL: "a disk is full, free some space",
    STORAGE: "the storage refuses requests, trying again",
}
"""What passes by itself or after someone has freed space, and what the status says meanwhile."""


@dataclass
class Retries:
    """Counts consecutive failures without a committed batch in between."""

    failures: int = 0
    _last_batch: int = -1

    def note(self, last_committed: int) -> None:
        """Count a failure; ``last_committed`` is the last batch committed before it (-1 without one)."""
        self.failures = 1 if last_committed > self._last_batch else self.failures + 1
        self._last_batch = last_committed

    def exhausted(self, cause: Cause) -> bool:
        """Whether the failure has occurred too often."""
        return self.failures > (_MAX_RETRIES_WAITED_FOR if cause in WAITED_FOR else _MAX_RETRIES)

    @property
    def delay_s(self) -> float:
        """Delay before the next restart, seconds; doubles with each failure."""
        return min(FIRST_DELAY_S * 2.0 ** min(self.failures - 1, 10), LONGEST_DELAY_S)
