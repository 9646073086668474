"""Seeded traffic, sent to one topic at a steady rate, even while the broker fails.

Every record has the time that its producer gives it, as Kafka has it by default. One partition gets nothing
but garbage, and some are added while the topic is used.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from proof.traffic.generate import Plan, Traffic
from proof.traffic.records import Record, Slice
from stateward.contract.clients.kafka import client_settings
from stateward.platform.topics import ensure_topic
from stateward.replay.pacing import Pacer
from stateward.replay.records import TICK_KEY, tick_value
from stateward.replay.send import Sender

PARTITIONS = 4
GARBAGE_PARTITION = 3
ADDED = 2
"""Partitions that the first `Feed.add_partitions` adds."""
_TIMEOUT_S = 120.0
_ADMIN_S = 90.0
_STAMPED_BY_PRODUCERS = {"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": str(2**62)}


def partition_of(key: bytes, *, added: bool) -> int:
    """The partition of an event, never that of the garbage."""
    places = [place for place in range(PARTITIONS + ADDED * added) if place != GARBAGE_PARTITION]
    return places[zlib.crc32(key) % len(places)]


class _Spread(Sender):
    """Sends each record to the partition of its key."""

    def __init__(self, bootstrap: str, topic: str, *, added: bool) -> None:
        super().__init__(bootstrap, topic)
        self._added = added

    def _produce(self, **record: Any) -> None:
        place = {"partition": partition_of(record["key"] or b"", added=self._added)}
        super()._produce(**{**place, **record})


class Feed:
    """The traffic of one topic: a first phase by the clock, ticks, and late events.

    Args:
        bootstrap: The broker, which must be reachable.
        plan: The plan of the traffic; it has one topic.

    Attributes:
        topic: The topic.
        sent: All records in the order of sending, without ticks.
        ticks: Keys and values of the ticks.
        partitions: Number of the topic's partitions.
    """

    def __init__(self, bootstrap: str, plan: Plan) -> None:
        (self.topic,) = plan.topics
        self.sent: list[Record] = []
        self.ticks: list[tuple[bytes, bytes]] = []
        self.partitions = PARTITIONS
        self._bootstrap = bootstrap
        ensure_topic(bootstrap, self.topic, PARTITIONS, create=True)
        self._let_producers_stamp()
        self._sender = _Spread(bootstrap, self.topic, added=False)
        self._others = Producer({**client_settings(bootstrap), "enable.idempotence": True, "acks": "all"})
        self._traffic = Traffic(plan)
        self._rate = plan.rate
        self._error: Exception | None = None
        # A daemon, so that an interrupted run does not wait for it.
        self._thread = threading.Thread(target=self._run, name=f"feed-{self.topic}", daemon=True)

    @property
    def last_event(self) -> datetime:
        """The largest event time sent."""
        return self._traffic.last_event[self.topic]

    def start(self) -> None:
        """Start the first phase."""
        self._thread.start()

    def join(self) -> None:
        """Wait until the broker has the whole first phase.

        Raises:
            Exception: The cause of a failure, such as a broker that was unreachable for too long.
        """
        while self._thread.is_alive():
            # In slices, so that signals are handled.
            self._thread.join(0.5)
        if self._error is not None:
            raise self._error
        assert self._others.flush(_TIMEOUT_S) == 0, "the broker did not take what neighbours have sent"

    def tick(self, moment: datetime) -> None:
        """End the first phase, so that every timeout passes."""
        self._sender.send_ticks(moment, self.partitions)
        self.ticks += [(TICK_KEY, tick_value(moment))] * self.partitions

    def send_others(self, records: Iterable[tuple[Record, int | None]], partition: int | None = None) -> None:
        """Send the records of another producer, each with its own time (ms) or the current one.

        Records wait in the producer while the broker is away.
        """
        for record, at_ms in records:
            place = partition_of(record.key, added=False) if partition is None else partition
            # 0 means the current time.
            self._others.produce(
                self.topic, value=record.value, key=record.key, partition=place, timestamp=at_ms or 0
            )
            self.sent.append(record)
        self._others.poll(0)

    def add_partitions(self) -> None:
        """Add partitions, which get their share of the traffic from the next slice on.

        Raises:
            KafkaException: The broker failed.
        """
        wanted = PARTITIONS + ADDED
        admin = AdminClient(client_settings(self._bootstrap))
        admin.create_partitions([NewPartitions(self.topic, wanted)])[self.topic].result(_ADMIN_S)
        self.partitions = wanted
        self._sender = _Spread(self._bootstrap, self.topic, added=True)

    def _let_producers_stamp(self) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in _STAMPED_BY_PRODUCERS.items()
        ]
        topic = ConfigResource(ResourceType.TOPIC, self.topic, incremental_configs=entries)
        admin = AdminClient(client_settings(self._bootstrap))
        admin.incremental_alter_configs([topic])[topic].result(_ADMIN_S)

    def send_late(self) -> None:
        """Send the second phase: late events."""
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
            # The producer first waits for its time in the schedule, so this is slightly early.
            self.sent.append(record)
            yield record.key, record.value
