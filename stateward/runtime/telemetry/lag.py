"""The trend of a stream's lag: since when records wait, and whether their number grows. Pure."""

from __future__ import annotations

from collections import deque
from statistics import linear_regression

_WINDOW_S = 300.0
_SAMPLE_S = 5.0
# A batch reduces the lag at once; fewer samples would show these steps instead of the trend.
_FEWEST = 12


class LagTrend:
    """Computes the trend from samples of the lag."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()
        self.behind_since_s: float | None = None
        """Since when every sample had waiting records, seconds since 1970; None if the last had none."""

    def note(self, at_s: float, lag: int) -> None:
        """Add a sample: the number of waiting records at a time, seconds since 1970."""
        if not lag:
            self.behind_since_s = None
        elif self.behind_since_s is None:
            self.behind_since_s = at_s
        if self._samples and 0 <= at_s - self._samples[-1][0] < _SAMPLE_S:
            return
        # Drop samples from before the clock was set back.
        while self._samples and not 0 <= at_s - self._samples[0][0] <= _WINDOW_S:
            self._samples.popleft()
        self._samples.append((at_s, lag))

    @property
    def change_per_s(self) -> float | None:
        """The change of the lag in records per second; None in the first minute."""
        if len(self._samples) < _FEWEST:
            return None
        begin = self._samples[0][0]
        times, lags = zip(*((at_s - begin, lag) for at_s, lag in self._samples), strict=True)
        return round(linear_regression(times, lags).slope, 1)
