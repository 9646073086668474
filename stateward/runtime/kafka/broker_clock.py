"""The broker's time, which is independent of the clocks of producers and drivers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from stateward.runtime.kafka.broker import Broker

# Between two requests the monotonic clock of this machine is accurate enough.
_ASKED_EVERY_S = 5.0


@dataclass
class BrokerClock:
    """Requests the broker's time every few seconds. Pickled for the process that plans batches.

    The returned time is never ahead of the broker's: the time of the response's way back is not added.

    Attributes:
        topic: A topic with the broker's timestamps, used only for this.
        monotonic: A monotonic clock, seconds.
    """

    topic: str
    monotonic: Callable[[], float] = time.monotonic
    _stamped: tuple[float, int] | None = field(default=None, init=False)

    def now_ms(self, broker: Broker) -> int:
        """The broker's time, ms since 1970 UTC.

        Raises:
            BrokerAwayError: Kafka does not answer.
            TopicMissingError: The topic does not use the broker's timestamps.
        """
        if self._stamped is None or self.monotonic() - self._stamped[0] >= _ASKED_EVERY_S:
            stamp_ms = broker.append_time(self.topic)
            # The leader may have changed, and its clock may differ: time does not go back.
            self._stamped = (self.monotonic(), max(stamp_ms, self._elapsed_ms() or stamp_ms))
        reached = self._elapsed_ms()
        assert reached is not None
        return reached

    def _elapsed_ms(self) -> int | None:
        if self._stamped is None:
            return None
        at_s, now_ms = self._stamped
        return now_ms + int((self.monotonic() - at_s) * 1000)
