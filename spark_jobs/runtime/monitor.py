"""A thread that watches the topic: lag, whether the broker answers, and when a tick is due."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from datetime import datetime

from spark_jobs.runtime.alarms import Alarms, OpenState
from spark_jobs.runtime.broker import Broker, BrokerAwayError, LastRecord
from spark_jobs.runtime.config import Config
from spark_jobs.runtime.lag import LagTrend
from spark_jobs.runtime.progress import Position
from spark_jobs.runtime.status import iso_ms
from spark_jobs.runtime.tick import TopicView, next_tick

_LOG = logging.getLogger(__name__)
_POLL_S = 0.5
_IDLE_MS = 60_000


class TopicMonitor:
    """Looks at Kafka twice a second.

    Args:
        config: The launch.
        broker: The cluster.
        partitions: The data topics, and how many partitions each has.
        ticks: Whether the stream has a tick topic.
        position: Gives how far the query has got.
        alarms: What the query's timers are known to be.
        publish: Takes status fields.
        clock: The time, aware.
    """

    def __init__(
        self,
        *,
        config: Config,
        broker: Broker,
        partitions: Mapping[str, int],
        position: Callable[[], Position],
        alarms: Alarms | OpenState,
        publish: Callable[..., None],
        clock: Callable[[], datetime],
        ticks: bool = True,
    ) -> None:
        self._config = config
        self._broker = broker
        self._partitions = partitions
        self._position = position
        self._alarms = alarms
        self._publish = publish
        self._clock = clock
        self._ticks = ticks
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topic-monitor", daemon=True)
        self._last_tick_ms = 0
        self._last_sent: int | None = None
        self._newest: tuple[dict[int, int], dict[int, LastRecord]] = ({}, {})
        self._trend = LagTrend()
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
                self.look()
                self.broker_away = None
            except BrokerAwayError as error:
                self.broker_away = str(error)
            except Exception:
                # Lag and ticks can wait for the next look: report and go on.
                _LOG.exception("stream %s: the topic could not be looked at", self._config.stream)

    def look(self) -> None:
        """Publish the lag and send a tick if one is due.

        Raises:
            BrokerAwayError: Kafka does not answer.
        """
        # In this order: records that come in between look as if they waited, which only holds the watermark
        # back.
        position = self._position()
        ends = {topic: self._broker.end_offsets(topic, count) for topic, count in self._partitions.items()}
        if not position.offsets:
            self._publish(lag_records=None, caught_up=False)
            return
        lag = sum(
            max(0, end - position.offsets.get(topic, {}).get(partition, 0))
            for topic, parts in ends.items()
            for partition, end in parts.items()
        )
        self._trend.note(self._clock().timestamp(), lag)
        since_s = self._trend.behind_since_s
        self._publish(
            lag_records=lag,
            caught_up=lag == 0,
            lag_change_per_s=self._trend.change_per_s,
            behind_since=None if since_s is None else iso_ms(int(since_s * 1000)),
        )
        if self._ticks:
            self._tick(ends[self._config.topic], position)

    def _tick(self, ends: dict[int, int], position: Position) -> None:
        now_ms = int(self._clock().timestamp() * 1000)
        mode = self._config.tick.mode
        if mode != "off" and self._config.in_processing_time:
            mode = "processing"
        delay_ms = self._config.watermark_delay_ms
        # A tick takes two batches to act. Another one for the same timers would cost two more.
        sent_ms = None if self._last_sent is None else self._last_sent - delay_ms
        due = self._alarms.is_due(now_ms - delay_ms, sent_ms)
        pause_ms = self._config.trigger_interval_ms if due else self._config.tick.interval_ms
        waits = now_ms - self._last_tick_ms < pause_ms
        view = TopicView(
            committed=position.offsets.get(self._config.topic, {}),
            ends=ends,
            newest={} if mode in ("wall_clock", "off", "processing") or waits else self._last_records(ends),
            seen_ms=position.newest_ms,
            watermark_ms=position.watermark_ms,
            lateness_ms=delay_ms,
            max_ahead_ms=self._config.max_ahead_ms,
        )
        # Between two ticks of a quiet topic only the events themselves may ask for one.
        tick_ms = next_tick("off" if waits else mode, view, now_ms)
        if tick_ms is None or tick_ms == self._last_sent:
            return
        if tick_ms == now_ms and not due and self._is_idle(now_ms):
            return
        self._broker.send_tick(self._config.tick_topic, iso_ms(tick_ms))
        self._last_tick_ms, self._last_sent = now_ms, tick_ms

    def _is_idle(self, now_ms: int) -> bool:
        """Whether a tick of the wall clock would let nothing expire; one now and then moves the watermark."""
        return self._alarms.are_known and now_ms - self._last_tick_ms < _IDLE_MS

    def _last_records(self, ends: dict[int, int]) -> dict[int, LastRecord]:
        # Partitions that have not moved still end with the same record.
        if self._newest[0] != ends:
            self._newest = (ends, self._broker.last_records(self._config.topic, ends))
        return self._newest[1]
