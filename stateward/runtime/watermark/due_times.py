"""When a stream's next timer is due, as far as the driver knows. Pure.

A tick without a due timer costs an empty micro-batch, and a late tick delays a timeout. The stateful operator
reports the timer of each bucket that it processes; the timers of buckets not processed since the driver's
start are unknown.
"""

from collections.abc import Mapping
from typing import NamedTuple


class DueTimes(NamedTuple):
    """When timers are due, as far as known.

    Attributes:
        timers: The known timers of all buckets, ms since 1970 UTC.
        known: Whether these are all timers.
    """

    timers: tuple[int, ...]
    known: bool

    def is_due(self, watermark_ms: int, beyond_ms: int | None = None) -> bool:
        """Whether a known timer is at or before the watermark.

        Args:
            watermark_ms: The watermark to test.
            beyond_ms: A watermark that was already requested: timers before it need no other tick.
        """
        return any(
            timer_ms <= watermark_ms and (beyond_ms is None or timer_ms >= beyond_ms)
            for timer_ms in self.timers
        )


NO_TIMERS = DueTimes((), known=False)


class BucketTimers:
    """The timers of all buckets.

    Args:
        buckets: The number of buckets.
        new: Whether the checkpoint is new, so that no bucket has a timer.
    """

    def __init__(self, buckets: int, *, new: bool) -> None:
        self._unknown = set() if new else set(range(buckets))
        self._timers: dict[int, int] = {}

    def note(self, timers: Mapping[int, int | None]) -> None:
        """Set timers (ms since 1970 UTC) by bucket; None if a bucket has none."""
        for bucket, timer_ms in timers.items():
            self._unknown.discard(bucket)
            if timer_ms is None:
                self._timers.pop(bucket, None)
            else:
                self._timers[bucket] = timer_ms

    def note_state(self, rows: int) -> None:
        """Set the number of rows in the state: if 0, unknown buckets have no timer."""
        if not rows:
            self._unknown.clear()

    @property
    def due(self) -> DueTimes:
        """The known timers."""
        return DueTimes(tuple(self._timers.values()), not self._unknown)


class UnknownTimers:
    """The timers of a stream on Spark's own operators, which do not report them.

    While the operators have state, any of it may be due at the next tick.
    """

    def __init__(self) -> None:
        self._is_open = True

    def note(self, timers: Mapping[int, int | None]) -> None:
        """Do nothing: there are no buckets."""

    def note_state(self, rows: int) -> None:
        """Set the number of rows in the state."""
        self._is_open = rows > 0

    @property
    def due(self) -> DueTimes:
        """No known timer; complete only while there is no state."""
        return DueTimes((), not self._is_open)
