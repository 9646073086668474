"""What the driver asks of Kafka itself, beside Spark's scan: topics, ends, last records, ticks."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from spark_jobs.runtime.kafka_client import VARIABLE, KafkaClientError, client_settings

_TIMEOUT_S = 5.0
_ON_ITS_WAY = (KafkaError.LEADER_NOT_AVAILABLE, KafkaError.REPLICA_NOT_AVAILABLE)
# What is said of a partition that was made a moment before, or whose leader changes; it passes in a second.
_SETTLING = (*_ON_ITS_WAY, KafkaError.NOT_LEADER_FOR_PARTITION)
_PAUSES_S = (0.2, 0.4, 0.8, 1.6)
_REFUSED = (KafkaError._AUTHENTICATION, KafkaError._SSL)
_TICK_RETENTION_MS = 30 * 24 * 3600 * 1000


class BrokerAwayError(RuntimeError):
    """Kafka did not answer; trying again later may help."""


class TopicMissingError(RuntimeError):
    """A topic does not exist and may not be created."""


@dataclass(frozen=True)
class LastRecord:
    """The newest record of a partition: its key, value and Kafka timestamp (ms)."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int


class Broker:
    """A Kafka cluster. Every call raises `BrokerAwayError` when it does not answer in time."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._client: AdminClient | None = None
        self._producer: Producer | None = None
        self._refused = ""

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; 0 if it does not exist."""
        try:
            metadata = self._admin.list_topics(timeout=_TIMEOUT_S).topics.get(topic)
        except KafkaException as error:
            raise self._away(error) from None
        if metadata is not None and metadata.error and metadata.error.code() in _ON_ITS_WAY:
            # It is there, and not to be taken for one that nobody has made.
            raise self._away(metadata.error)
        return 0 if metadata is None or metadata.error else len(metadata.partitions)

    def ensure_topic(self, topic: str, partitions: int, *, create: bool, stream: str) -> int:
        """The number of partitions of a topic that is there, or is made now.

        Raises:
            TopicMissingError: It is not there and ``create`` is false.
        """
        if found := self.partitions(topic):
            return found
        if not create:
            raise TopicMissingError(
                f"stream {stream}: expected topic {topic!r} at {self._bootstrap}, found none. "
                "Create it, or correct the topic's name in the stream's YAML."
            )
        self._create(NewTopic(topic, num_partitions=partitions, replication_factor=-1))
        return partitions

    def ensure_tick_topic(self, topic: str, stream: str) -> None:
        """Create the stream's own tick topic unless it exists."""
        if not self.partitions(topic):
            settings = {"retention.ms": str(_TICK_RETENTION_MS)}
            self._create(NewTopic(topic, num_partitions=1, replication_factor=-1, config=settings))

    def begin_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """The first offset that each partition still holds."""
        return self._offsets(topic, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """The next offset of each partition; of a transaction that is still open nothing counts."""
        return self._offsets(topic, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def _offsets(self, topic: str, partitions: int, spec: OffsetSpec) -> dict[int, int]:
        wanted = {TopicPartition(topic, partition): spec for partition in range(partitions)}
        for pause_s in _PAUSES_S:
            try:
                return self._listed(wanted)
            except KafkaException as error:
                away = self._away(error)  # and a client that has forgotten who led
                if error.args[0].code() not in _SETTLING:
                    raise away from None
                threading.Event().wait(pause_s)
        try:
            return self._listed(wanted)
        except KafkaException as error:
            raise self._away(error) from None

    def _listed(self, wanted: dict[TopicPartition, OffsetSpec]) -> dict[int, int]:
        """One question for offsets.

        Raises:
            BrokerAwayError: There is no answer.
            KafkaException: The answer is an error.
        """
        try:
            futures = self._admin.list_offsets(
                wanted, request_timeout=_TIMEOUT_S, isolation_level=IsolationLevel.READ_COMMITTED
            )
            return {key.partition: future.result(_TIMEOUT_S).offset for key, future in futures.items()}
        except TimeoutError as error:
            raise self._away(error) from None

    def last_records(self, topic: str, ends: dict[int, int]) -> dict[int, LastRecord]:
        """The newest record of each partition that has one."""
        settings = {
            **self._settings(),
            "group.id": "stateward-last-record",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
        consumer = Consumer(settings)
        try:
            consumer.assign([TopicPartition(topic, p, end - 1) for p, end in ends.items() if end > 0])
            found: dict[int, LastRecord] = {}
            waiting = {partition for partition, end in ends.items() if end > 0}
            while waiting:
                message = consumer.poll(_TIMEOUT_S)
                if message is None:
                    raise BrokerAwayError(
                        f"Kafka at {self._bootstrap} did not deliver the last records of {topic}"
                    )
                partition = message.partition()
                assert partition is not None  # known of every message that was consumed
                error = message.error()
                if error is None:
                    stamp = message.timestamp()[1]
                    found[partition] = LastRecord(message.key(), message.value(), stamp)
                elif error.code() != KafkaError._PARTITION_EOF:
                    raise self._away(error)
                waiting.discard(partition)
            return found
        except KafkaException as failure:
            raise self._away(failure) from None
        finally:
            consumer.close()

    def send_tick(self, topic: str, time_iso: str) -> None:
        """Put one tick in the tick topic and wait until it is there."""
        if self._producer is None:
            self._producer = Producer({**self._settings(), "acks": "all", "message.timeout.ms": 5000})
        self._producer.produce(topic, value=json.dumps({"tick": time_iso}).encode(), partition=0)
        if self._producer.flush(_TIMEOUT_S * 2):
            raise BrokerAwayError(f"Kafka at {self._bootstrap} did not take a tick")

    def _create(self, topic: NewTopic) -> None:
        try:
            self._admin.create_topics([topic], operation_timeout=_TIMEOUT_S)[topic.topic].result(
                _TIMEOUT_S * 2
            )
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._away(error) from None
        except TimeoutError as error:
            raise self._away(error) from None

    def _away(self, error: Any) -> BrokerAwayError:
        # A client that has lived through a broker's restart may keep asking with the leader epoch it
        # remembers, and be refused forever. A new one begins by asking who leads.
        # And by reading the operator's file: a password that was changed is in it.
        if self._client is not None:
            self._client.poll(0)
        why, self._refused = self._refused or str(error), ""
        self._client, self._producer = None, None
        return BrokerAwayError(f"Kafka at {self._bootstrap} does not answer: {why}")

    @property
    def _admin(self) -> AdminClient:
        if self._client is None:
            try:
                self._client = AdminClient(self._settings())
            except KafkaException as error:
                raise KafkaClientError(
                    f"{VARIABLE}: expected settings of librdkafka, found one that it does not take: "
                    f"{error.args[0].str()}"
                ) from None
        return self._client

    def _settings(self) -> dict[str, Any]:
        return {**client_settings(self._bootstrap), "error_cb": self._note}

    def _note(self, error: KafkaError) -> None:
        """Keep why the cluster lets nobody in, which the call that fails for it does not say."""
        if error.code() in _REFUSED:
            self._refused = error.str()
