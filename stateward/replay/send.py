"""Send lines to a Kafka topic, every one acknowledged by the broker or counted as failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from stateward.contract.clients.kafka import client_settings
from stateward.platform.parts.kafka import MAX_MESSAGE_BYTES
from stateward.replay.pacing import Pacer
from stateward.replay.records import TICK_KEY, LatestEventTime, event_time_of, key_of, parse, tick_value

_FLUSH_TIMEOUT_S = 120.0
_MAX_ERRORS_KEPT = 5


class DeliveryError(RuntimeError):
    """Some records did not arrive."""


@dataclass
class Outcome:
    """What became of the records.

    Attributes:
        sent: acknowledged by all replicas.
        unkeyed: sent without a key, because none could be read.
        failed: not acknowledged.
        ticks: tick records sent, one a partition.
        errors: reasons of the first few failures.
    """

    sent: int = 0
    unkeyed: int = 0
    failed: int = 0
    ticks: int = 0
    errors: list[str] = field(default_factory=list)


class Sender:
    """Sends the lines of one replay to one topic."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        from confluent_kafka import Producer

        self._topic = topic
        self._bootstrap_servers = bootstrap_servers
        self._producer = Producer(
            {
                # librdkafka reports what it retries by itself; what fails is in the outcome.
                **client_settings(bootstrap_servers),
                # Exactly one copy in the order of the file, whatever is retried on the way.
                "enable.idempotence": True,
                "acks": "all",
                "message.max.bytes": MAX_MESSAGE_BYTES,
                "linger.ms": 20,
                "compression.type": "lz4",
                # As Java producers do, so that a key stays in its partition whoever writes it.
                "partitioner": "murmur2_random",
                "queue.buffering.max.kbytes": 131072,
                "message.timeout.ms": int(_FLUSH_TIMEOUT_S * 1000),
            }
        )
        self.outcome = Outcome()

    def send_lines(
        self,
        lines: Iterable[bytes],
        *,
        key_field: str,
        pacer: Pacer,
        latest: LatestEventTime,
        on_line: Callable[[], None] = lambda: None,
    ) -> None:
        """Send every line as it is, and wait for the last acknowledgement.

        Args:
            lines: values of the records.
            key_field: the field, or its path, whose value becomes the key.
            pacer: delays each record.
            latest: told every event time.
            on_line: called after each line.

        Raises:
            DeliveryError: records failed; `outcome` says how many.
        """
        for line in lines:
            pacer.wait()
            record = parse(line)
            latest.see(event_time_of(record))
            key = key_of(record, key_field)
            if key is None:
                self.outcome.unkeyed += 1
            self._produce(value=line, key=key)
            on_line()
        self._flush()

    def send_records(self, records: Iterable[tuple[bytes | None, bytes | None]], pacer: Pacer) -> None:
        """Send keys and values as they are, and wait for the last acknowledgement.

        Raises:
            DeliveryError: records failed; `outcome` says how many.
        """
        for key, value in records:
            pacer.wait()
            self._produce(value=value, key=key)
        self._flush()

    def send_ticks(self, moment: datetime, partitions: int) -> None:
        """Write the end-of-replay tick to every partition, behind all the records.

        Raises:
            DeliveryError: a tick was not acknowledged.
        """
        sent_before = self.outcome.sent
        for partition in range(partitions):
            self._produce(value=tick_value(moment), key=TICK_KEY, partition=partition)
        self._flush()
        self.outcome.ticks = self.outcome.sent - sent_before
        self.outcome.sent = sent_before

    def _produce(self, **record: Any) -> None:
        from confluent_kafka import KafkaException

        while True:
            try:
                self._producer.produce(self._topic, on_delivery=self._delivered, **record)
                self._producer.poll(0)
                return
            except BufferError:
                # The queue is full: let acknowledgements come in.
                self._producer.poll(0.1)
            except KafkaException as error:
                # Refused before it was queued, such as a record larger than any broker here takes.
                self._failed(str(error.args[0]))
                return

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.outcome.sent += 1
        else:
            self._failed(str(error))

    def _failed(self, reason: str) -> None:
        self.outcome.failed += 1
        if len(self.outcome.errors) < _MAX_ERRORS_KEPT:
            self.outcome.errors.append(reason)

    def _flush(self) -> None:
        waiting = self._producer.flush(_FLUSH_TIMEOUT_S)
        if waiting or self.outcome.failed:
            reasons = "; ".join(self.outcome.errors) or "no acknowledgement"
            raise DeliveryError(
                f"topic {self._topic!r} at {self._bootstrap_servers}: {self.outcome.sent} records arrived, "
                f"{self.outcome.failed + waiting} did not ({reasons}); correct that and replay again: "
                "the event_id identifies records that arrived twice"
            )
