"""Sends records and keeps where each of them is in Kafka."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import Producer

from stateward.platform.parts.kafka import MAX_MESSAGE_BYTES


class Placed(NamedTuple):
    """One record as it was sent, and the place that the broker has given it.

    Attributes:
        topic: Kafka topic.
        partition: Kafka partition.
        offset: Kafka offset.
        at_ms: Kafka's timestamp, milliseconds since 1970 UTC.
        key: As it was sent.
        value: As it was sent.
    """

    topic: str
    partition: int
    offset: int
    at_ms: int
    key: bytes | None
    value: bytes | None


class Recorder:
    """A producer that keeps every acknowledgement.

    Args:
        bootstrap: Addresses of the brokers.

    Attributes:
        placed: What the broker has taken, in the order in which it said so.
    """

    def __init__(self, bootstrap: str) -> None:
        self.placed: list[Placed] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                # Each record once, and those of a partition in their order.
                "enable.idempotence": True,
                "message.max.bytes": MAX_MESSAGE_BYTES,
                "linger.ms": 20,
            }
        )

    def send(self, topic: str, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Send keys and values, and wait until the broker has all of them."""
        for key, value in records:
            self._produce(topic, key, value)
        self._flush()

    def send_to_each(self, topic: str, partitions: int, key: bytes, value: bytes) -> None:
        """Send the same record to every partition."""
        for partition in range(partitions):
            self._produce(topic, key, value, partition=partition)
        self._flush()

    def _produce(self, topic: str, key: bytes | None, value: bytes | None, partition: int = -1) -> None:
        # What was sent is kept here: what the client gives back is not what is to be shown.
        taken = partial(self._taken, key, value)
        while True:
            try:
                self._producer.produce(topic, value=value, key=key, partition=partition, on_delivery=taken)
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.1)

    def _taken(self, key: bytes | None, value: bytes | None, error: Any, message: Any) -> None:
        assert error is None, f"a record was not taken: {error}"
        place = message.topic(), message.partition(), message.offset(), message.timestamp()[1]
        self.placed.append(Placed(*place, key, value))

    def _flush(self) -> None:
        assert self._producer.flush(60) == 0, "not every record was taken by the broker"
