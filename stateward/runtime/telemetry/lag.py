"""How the lag of a stream changes: since when records wait, and whether they become more. Pure."""

from __future__ import annotations

from collections import deque
from statistics import linear_regression

_WINDOW_S = 300.0
_SAMPLE_S = 5.0
# A batch takes its records off the lag at once: fewer samples would show that, and not where it goes.
_FEWEST = 12


class LagTrend:
    """Takes in each look at the topic."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()
        self.behind_since_s: float | None = None
        """Since when there have been records waiting at every look, seconds since 1970; None with none."""

    def note(self, at_s: float, lag: int) -> None:
        """Take in how many records waited at a time, seconds since 1970."""
        if not lag:
            self.behind_since_s = None
        elif self.behind_since_s is None:
            self.behind_since_s = at_s
        if self._samples and 0 <= at_s - self._samples[-1][0] < _SAMPLE_S:
            return
        # A clock that was set back would make the line run backwards.
        while self._samples and not 0 <= at_s - self._samples[0][0] <= _WINDOW_S:
            self._samples.popleft()
        self._samples.append((at_s, lag))

    @property
    def change_per_s(self) -> float | None:
        """Records a second by which the lag grows, or shrinks if below 0; None in the first minute."""
        if len(self._samples) < _FEWEST:
            return None
        begin = self._samples[0][0]
        times, lags = zip(*((at_s - begin, lag) for at_s, lag in self._samples), strict=True)
        return round(linear_regression(times, lags).slope, 1)
