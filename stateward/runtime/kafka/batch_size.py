"""How many records a batch may have, from how long the batches before it took.

The offsets of a batch are logged before it runs, so a batch that is repeated has the same records however
long it takes then.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean, linear_regression, pstdev

# One batch that was slow for another reason must not leave the next ones tiny.
_MOST_CHANGE = 2
# No batch takes exactly as long as the one before.
_TOLERANCE = 1.5
_LEAST_S = 0.001
# With shorter batches more than a third of the time would go into what each batch costs by itself.
_LEAST_IN_FIXED_TIMES = 3
_LOOKED_AT = 10
_LEAST_SPREAD = 0.2
# As long as sizes do not differ, what was learned of the fixed time is forgotten: it may have been by chance.
_KEPT = 0.9


@dataclass(frozen=True)
class _Batch:
    records: int
    took_s: float


class BatchSize:
    """The limit of one start of a query; for its first two batches there is none.

    A batch is taken to last a fixed time and the same time for each of its records: the line through the last
    ten batches, if their sizes differ (`statistics.linear_regression`). A batch may last three times the
    fixed time even if that is longer than the target, as on a machine that many streams share. The limit
    stays while batches last up to half as long again.

    Args:
        target_s: How long a batch should last; 0 for any time.
        monotonic: A monotonic clock, seconds.
    """

    def __init__(self, target_s: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._target_s = target_s
        self._monotonic = monotonic
        self._limit: float | None = None
        self._planned: tuple[int, float] | None = None
        self._last: deque[_Batch] = deque(maxlen=_LOOKED_AT)
        self._fixed_s = 0.0
        self._is_warm = False

    def limited(self, most: int) -> int:
        """Return the largest number of records of the batch that is planned now.

        Args:
            most: The largest that any batch may have.
        """
        if self._planned is not None and self._target_s > 0:
            records, since = self._planned
            self._learn(_Batch(records, self._monotonic() - since), most)
        self._planned = None
        return most if self._limit is None else max(1, min(most, int(self._limit)))

    def planned(self, records: int) -> None:
        """Note that a batch of so many records starts now; Spark plans the next one when it has ended."""
        # Workers start with the first batch, and code is compiled: it says nothing of the next ones.
        self._planned = (records, self._monotonic()) if self._is_warm else None
        self._is_warm = True

    def _learn(self, last: _Batch, most: int) -> None:
        self._last.append(last)
        self._fixed_s = self._fixed_now()
        limit = min(most, self._limit or most)
        target_s = max(self._target_s, _LEAST_IN_FIXED_TIMES * self._fixed_s)
        is_as_it_should = target_s <= last.took_s <= _TOLERANCE * target_s
        # A few records that took long say nothing of many.
        if last.records >= limit / _MOST_CHANGE and not is_as_it_should:
            took_s = max(last.took_s - self._fixed_s, _LEAST_S)
            wanted = last.records * (target_s - self._fixed_s) / took_s
            self._limit = min(max(wanted, limit / _MOST_CHANGE), limit * _MOST_CHANGE)

    def _fixed_now(self) -> float:
        sizes, times = [one.records for one in self._last], [one.took_s for one in self._last]
        if pstdev(sizes) > _LEAST_SPREAD * fmean(sizes):
            line = linear_regression(sizes, times)
            if line.slope > 0:
                return max(0.0, line.intercept)
        return self._fixed_s * _KEPT
