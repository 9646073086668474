"""When a stream's next timeout is due, as far as its driver knows. Pure.

A tick that lets nothing expire is a micro-batch for nothing, and one that comes late holds a timeout up. The
stateful operator reports a bucket's timer whenever it has looked at the bucket; of a bucket that nothing has
touched since the driver started, nothing is known.
"""

from collections.abc import Mapping
from typing import NamedTuple


class DueTimes(NamedTuple):
    """When timers are due, as far as that is known.

    Attributes:
        timers: Of all buckets, ms since 1970 UTC.
        known: Whether no bucket can have a timer that is not among them.
    """

    timers: tuple[int, ...]
    known: bool

    def is_due(self, watermark_ms: int, beyond_ms: int | None = None) -> bool:
        """Whether a known timer is at or before the watermark.

        Args:
            watermark_ms: What the watermark would be.
            beyond_ms: A watermark that is on its way already: what is before it needs no other.
        """
        return any(
            timer_ms <= watermark_ms and (beyond_ms is None or timer_ms >= beyond_ms)
            for timer_ms in self.timers
        )


NO_ALARMS = DueTimes((), known=False)


class Alarms:
    """The timers of all buckets.

    Args:
        buckets: How many there are.
        new: Whether the checkpoint is new, so that no bucket has anything.
    """

    def __init__(self, buckets: int, *, new: bool) -> None:
        self._unknown = set() if new else set(range(buckets))
        self._timers: dict[int, int] = {}

    def note(self, timers: Mapping[int, int | None]) -> None:
        """Take in timers (ms since 1970 UTC) by bucket; None where there is none."""
        for bucket, timer_ms in timers.items():
            self._unknown.discard(bucket)
            if timer_ms is None:
                self._timers.pop(bucket, None)
            else:
                self._timers[bucket] = timer_ms

    def note_state(self, rows: int) -> None:
        """Take in how many rows the state had: if none, what is unknown has no timer."""
        if not rows:
            self._unknown.clear()

    @property
    def due(self) -> DueTimes:
        """All that is known."""
        return DueTimes(tuple(self._timers.values()), not self._unknown)


class OpenState:
    """The alarms of a stream on Spark's own operators, which do not say when they are due.

    While they hold anything, it may be due with the next tick.
    """

    def __init__(self) -> None:
        self._is_open = True

    def note(self, timers: Mapping[int, int | None]) -> None:
        """There are none."""

    def note_state(self, rows: int) -> None:
        """Take in how many rows the state had."""
        self._is_open = rows > 0

    @property
    def due(self) -> DueTimes:
        """No timer is known, and while there is state there may be any."""
        return DueTimes((), not self._is_open)
