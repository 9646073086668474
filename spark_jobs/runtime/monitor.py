"""A thread that watches the topic: lag, whether the broker answers, and when a tick is due."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime

from spark_jobs.runtime.broker import Broker, BrokerAwayError, LastRecord
from spark_jobs.runtime.config import Config
from spark_jobs.runtime.progress import Position
from spark_jobs.runtime.status import iso_ms
from spark_jobs.runtime.tick import TopicView, next_tick

_LOG = logging.getLogger(__name__)
_POLL_S = 1.0


class TopicMonitor:
    """Looks at Kafka once a second.

    Args:
        config: The launch.
        broker: The cluster.
        partitions: Partitions of the data topic.
        position: Gives how far the query has got.
        publish: Takes status fields.
        clock: The time, aware.
    """

    def __init__(
        self,
        *,
        config: Config,
        broker: Broker,
        partitions: int,
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
        self._last_tick_ms = 0
        self._newest: tuple[dict[int, int], dict[int, LastRecord]] = ({}, {})
        self.broker_away: str | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_POLL_S):
            try:
                self._look()
                self.broker_away = None
            except BrokerAwayError as error:
                self.broker_away = str(error)
            except Exception:
                # Ticks and lag are worth less than the stream: report and go on.
                _LOG.exception("stream %s: the topic could not be looked at", self._config.stream)

    def _look(self) -> None:
        ends = self._broker.end_offsets(self._config.topic, self._partitions)
        position = self._position()
        lag = sum(max(0, end - position.offsets.get(partition, 0)) for partition, end in ends.items())
        known = bool(position.offsets)
        self._publish(lag_records=lag if known else None, caught_up=known and lag == 0)
        now_ms = int(self._clock().timestamp() * 1000)
        if now_ms - self._last_tick_ms >= self._config.tick.interval_ms:
            self._tick(ends, position, now_ms)

    def _tick(self, ends: dict[int, int], position: Position, now_ms: int) -> None:
        mode = self._config.tick.mode
        if any(position.offsets.get(partition, -1) < end for partition, end in ends.items()):
            return
        view = TopicView(
            committed=position.offsets,
            ends=ends,
            newest={} if mode == "wall_clock" else self._last_records(ends),
            watermark_ms=position.watermark_ms,
            lateness_ms=self._config.allowed_lateness_ms,
            max_ahead_ms=self._config.max_ahead_ms,
        )
        tick_ms = next_tick(mode, view, now_ms)
        if tick_ms is not None:
            self._broker.send_tick(self._config.tick_topic, iso_ms(tick_ms))
            self._last_tick_ms = now_ms

    def _last_records(self, ends: dict[int, int]) -> dict[int, LastRecord]:
        # Partitions that have not moved still end with the same record.
        if self._newest[0] != ends:
            self._newest = (ends, self._broker.last_records(self._config.topic, ends))
        return self._newest[1]
