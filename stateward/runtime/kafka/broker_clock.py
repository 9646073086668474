"""The broker's time, which no producer's and no driver's clock can move."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from stateward.runtime.kafka.broker import Broker

# In between the monotonic clock counts on: a clock of any machine keeps that time.
_ASKED_EVERY_S = 5.0


@dataclass
class BrokerClock:
    """Asks now and then. Sent to the process that plans batches, which makes its own client.

    The time told is never ahead of the broker's: what a record takes on its way back is not counted.

    Attributes:
        topic: Whose records the broker stamps; for nothing else.
        monotonic: Seconds, from whenever.
    """

    topic: str
    monotonic: Callable[[], float] = time.monotonic
    _told: tuple[float, int] | None = field(default=None, init=False)

    def now_ms(self, broker: Broker) -> int:
        """The broker's time, ms since 1970 UTC.

        Raises:
            BrokerAwayError: Kafka does not answer.
            TopicMissingError: The broker does not stamp the topic's records.
        """
        if self._told is None or self.monotonic() - self._told[0] >= _ASKED_EVERY_S:
            stamp_ms = broker.append_time(self.topic)
            # Another broker may lead by now, with a clock of its own: time does not go back.
            self._told = (self.monotonic(), max(stamp_ms, self._reached() or stamp_ms))
        reached = self._reached()
        assert reached is not None
        return reached

    def _reached(self) -> int | None:
        if self._told is None:
            return None
        at_s, now_ms = self._told
        return now_ms + int((self.monotonic() - at_s) * 1000)
