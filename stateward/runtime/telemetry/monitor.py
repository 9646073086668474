"""A thread that monitors the lag and the availability of the broker."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from datetime import datetime

from stateward.contract.reading import iso_ms
from stateward.runtime.api.config import Config
from stateward.runtime.kafka.broker import Broker, BrokerAwayError
from stateward.runtime.telemetry.lag import LagTrend
from stateward.runtime.telemetry.progress import Position

_LOG = logging.getLogger(__name__)
_POLL_S = 0.5


class TopicMonitor:
    """Polls Kafka twice a second.

    Args:
        config: The launch.
        broker: The cluster.
        partitions: The number of partitions of each data topic.
        position: Returns the position of the query.
        publish: Receives status fields.
        clock: The time, aware.
    """

    def __init__(
        self,
        *,
        config: Config,
        broker: Broker,
        partitions: Mapping[str, int],
        position: Callable[[], Position],
        publish: Callable[..., None],
        clock: Callable[[], datetime],
    ) -> None:
        self._config = config
        self._broker = broker
        self._partitions = partitions
        self._position = position
        self._publish = publish
        self._clock = clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topic-monitor", daemon=True)
        self._trend = LagTrend()
        self.broker_away: str | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_POLL_S):
            try:
                self.poll()
                self.broker_away = None
            except BrokerAwayError as error:
                self.broker_away = str(error)
            except Exception:
                # The next poll may succeed.
                _LOG.exception("stream %s: the lag could not be read", self._config.stream)

    def poll(self) -> None:
        """Publish the lag.

        Raises:
            BrokerAwayError: Kafka does not answer.
        """
        position = self._position()
        # As in the planner: a topic may have more partitions than at the start.
        counts = {t: max(n, len(position.offsets.get(t, {}))) for t, n in self._partitions.items()}
        ends = {topic: self._broker.end_offsets(topic, count) for topic, count in counts.items()}
        if not position.offsets:
            self._publish(lag_records=None, lag_by_topic=None, caught_up=False)
            return
        by_topic = {
            topic: sum(max(0, end - position.offsets.get(topic, {}).get(p, 0)) for p, end in parts.items())
            for topic, parts in ends.items()
        }
        lag = sum(by_topic.values())
        self._trend.note(self._clock().timestamp(), lag)
        since_s = self._trend.behind_since_s
        self._publish(
            lag_records=lag,
            lag_by_topic=by_topic if len(by_topic) > 1 else None,
            caught_up=lag == 0,
            lag_change_per_s=self._trend.change_per_s,
            behind_since=None if since_s is None else iso_ms(int(since_s * 1000)),
        )
