"""Pacing: so many records a second, without drift."""

from __future__ import annotations

from collections.abc import Callable


class Pacer:
    """Delays each record until its place in the schedule.

    The schedule counts from the first record, so that a slow moment is made up for and the mean rate holds.
    """

    def __init__(
        self, per_second: float | None, clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        """Take `per_second` records a second, None for no limit; `clock` and `sleep` count in seconds.

        Raises:
            ValueError: the rate is not above zero.
        """
        if per_second is not None and per_second <= 0:
            raise ValueError(f"--rate: expected records per second above 0, found {per_second:g}")
        self._per_second = per_second
        self._clock = clock
        self._sleep = sleep
        self._started: float | None = None
        self._sent = 0

    def wait(self) -> None:
        """Return when the next record is due."""
        if self._per_second is None:
            return
        now = self._clock()
        if self._started is None:
            self._started = now
        due = self._started + self._sent / self._per_second
        self._sent += 1
        if due > now:
            self._sleep(due - now)
