"""How many records a batch may have, from how long the batches before it took.

The offsets of a batch are logged before it runs, so a batch that is repeated has the same records however
long it takes then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

# One batch that was slow for another reason must not leave the next ones tiny.
_MOST_CHANGE = 2
# No batch takes exactly as long as the one before.
_TOLERANCE = 1.5
_LEAST_S = 0.001
# With shorter batches more than a fifth of the time would go into what each batch costs by itself.
_LEAST_IN_FIXED_TIMES = 5


@dataclass(frozen=True)
class _Batch:
    records: int
    took_s: float


class BatchSize:
    """The limit of one start of a query; for its first two batches there is none.

    A batch is taken to last a fixed time and the same time for each of its records. Both follow from two
    batches of which one had at least twice the records of the other. A batch may last five times the fixed
    time even if that is longer than the target, as on a machine that many streams share. The limit stays
    while batches last up to half as long again.

    Args:
        target_s: How long a batch should last; 0 for any time.
        monotonic: A monotonic clock, seconds.
    """

    def __init__(self, target_s: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._target_s = target_s
        self._monotonic = monotonic
        self._limit: float | None = None
        self._planned: tuple[int, float] | None = None
        self._other: _Batch | None = None
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
        self._compare(last)
        limit = min(most, self._limit or most)
        target_s = max(self._target_s, _LEAST_IN_FIXED_TIMES * self._fixed_s)
        is_as_it_should = target_s <= last.took_s <= _TOLERANCE * target_s
        # A few records that took long say nothing of many.
        if last.records >= limit / _MOST_CHANGE and not is_as_it_should:
            took_s = max(last.took_s - self._fixed_s, _LEAST_S)
            wanted = last.records * (target_s - self._fixed_s) / took_s
            self._limit = min(max(wanted, limit / _MOST_CHANGE), limit * _MOST_CHANGE)

    def _compare(self, last: _Batch) -> None:
        """Learn the fixed time; the earlier batch is kept until one of another size can be compared."""
        if self._other is None:
            self._other = last
        fewer, more = sorted((last, self._other), key=lambda batch: batch.records)
        if more.records >= max(1, _MOST_CHANGE * fewer.records):
            if more.took_s > fewer.took_s:
                record_s = (more.took_s - fewer.took_s) / (more.records - fewer.records)
                self._fixed_s = max(0.0, fewer.took_s - record_s * fewer.records)
            self._other = last
