"""Seeded traffic, sent to one topic at a steady pace, whatever happens to the broker meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from datetime import datetime

from include.platform.topics import ensure_topic
from include.replay.pacing import Pacer
from include.replay.records import TICK_KEY, tick_value
from include.replay.send import Sender
from include.traffic.generate import Plan, Traffic
from include.traffic.records import Record, Slice

PARTITIONS = 3


class Feed:
    """The traffic of one topic: a first phase by the clock, ticks, and late events.

    Args:
        bootstrap: The broker, which has to answer now.
        plan: What is made; it has one topic.

    Attributes:
        topic: The topic.
        sent: All records in the order in which they were handed to the producer, without ticks.
        ticks: Keys and values of the ticks.
    """

    def __init__(self, bootstrap: str, plan: Plan) -> None:
        (self.topic,) = plan.topics
        self.sent: list[Record] = []
        self.ticks: list[tuple[bytes, bytes]] = []
        ensure_topic(bootstrap, self.topic, PARTITIONS, create=True)
        self._sender = Sender(bootstrap, self.topic)
        self._traffic = Traffic(plan)
        self._rate = plan.rate
        self._error: Exception | None = None
        # A daemon: a run that is interrupted does not wait for it.
        self._thread = threading.Thread(target=self._run, name=f"feed-{self.topic}", daemon=True)

    @property
    def last_event(self) -> datetime:
        """The largest event time of what was sent."""
        return self._traffic.last_event[self.topic]

    def start(self) -> None:
        """Begin the first phase."""
        self._thread.start()

    def join(self) -> None:
        """Wait until the broker has the whole first phase.

        Raises:
            Exception: What stopped it, such as a broker that was away for too long.
        """
        while self._thread.is_alive():
            # In slices, so that a signal gets through.
            self._thread.join(0.5)
        if self._error is not None:
            raise self._error

    def tick(self, moment: datetime) -> None:
        """End the first phase: behind it every timeout passes."""
        self._sender.send_ticks(moment, PARTITIONS)
        self.ticks += [(TICK_KEY, tick_value(moment))] * PARTITIONS

    def send_late(self) -> None:
        """Send the second phase, events that are too late."""
        self._send(self._traffic.late(), Pacer(None, time.monotonic, time.sleep))

    def _run(self) -> None:
        try:
            self._send(self._traffic.slices(), Pacer(self._rate, time.monotonic, time.sleep))
        except Exception as error:
            self._error = error

    def _send(self, slices: Iterable[Slice], pacer: Pacer) -> None:
        for piece in slices:
            self._sender.send_records(self._noted(piece.records), pacer)

    def _noted(self, records: Iterable[Record]) -> Iterator[tuple[bytes | None, bytes | None]]:
        for record in records:
            # The producer waits for its place in the schedule first, so this is a moment early.
            self.sent.append(record)
            yield record.key, record.value
