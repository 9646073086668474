"""What the driver asks of Kafka itself, beside Spark's scan: topics, ends, the time."""

from __future__ import annotations

import threading
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from stateward.contract.conditions import Condition, ConditionError
from stateward.contract.environment import ENV_KAFKA_CLIENT
from stateward.contract.kafka_client import BROKERS_DEFAULT, KafkaClientError, client_settings

_TIMEOUT_S = 5.0
_ON_ITS_WAY = (KafkaError.LEADER_NOT_AVAILABLE, KafkaError.REPLICA_NOT_AVAILABLE)
# What is said of a partition that was made a moment before, or whose leader changes; it passes in a second.
_SETTLING = (*_ON_ITS_WAY, KafkaError.NOT_LEADER_FOR_PARTITION)
_PAUSES_S = (0.2, 0.4, 0.8, 1.6)
_REFUSED = (KafkaError._AUTHENTICATION, KafkaError._SSL)
_TICK_RETENTION_MS = 24 * 3600 * 1000
_STAMPED = ("message.timestamp.type", "LogAppendTime")


class BrokerAwayError(ConditionError, RuntimeError):
    """Kafka did not answer; trying again later may help."""

    condition = Condition.BROKER_AWAY


class TopicMissingError(ConditionError, RuntimeError):
    """A topic does not exist and may not be created."""

    condition = Condition.TOPIC_MISSING


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
        self._create(NewTopic(topic, partitions, BROKERS_DEFAULT))
        return partitions

    def ensure_tick_topic(self, topic: str) -> None:
        """Create the topic by which a stream asks for the broker's time, or have the broker stamp it.

        One of an earlier release has producers' timestamps; whoever may not alter it is told so later, by
        `append_time`.
        """
        if not self.partitions(topic):
            settings = dict([_STAMPED, ("retention.ms", str(_TICK_RETENTION_MS))])
            self._create(NewTopic(topic, 1, BROKERS_DEFAULT, config=settings))
            return
        stamped = ConfigEntry(*_STAMPED, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[stamped])
        with suppress(KafkaException, TimeoutError):
            self._admin.incremental_alter_configs([resource])[resource].result(_TIMEOUT_S)

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

    def append_time(self, topic: str) -> int:
        """The broker's time, ms since 1970 UTC: that with which it stamps a record that is sent to it now.

        Raises:
            TopicMissingError: The topic does not have the broker stamp its records.
        """
        if self._producer is None:
            self._producer = Producer({**self._settings(), "acks": "all", "message.timeout.ms": 5000})
        reports: list[tuple[KafkaError | None, Message]] = []
        self._producer.produce(topic, value=b"", partition=0, on_delivery=lambda *told: reports.append(told))
        if self._producer.flush(_TIMEOUT_S * 2) or not reports:
            raise BrokerAwayError(f"Kafka at {self._bootstrap} did not take a record of {topic}")
        [(error, message)] = reports
        if error is not None:
            raise self._away(error)
        kind, stamp_ms = message.timestamp()
        if kind != TIMESTAMP_LOG_APPEND_TIME:
            raise TopicMissingError(
                f"topic {topic}: expected {_STAMPED[0]}={_STAMPED[1]}, by which a stream knows the broker's "
                "time, found producers' timestamps. Set that of the topic, or delete it: the driver makes it "
                "anew where it may."
            )
        return int(stamp_ms)

    def describe(self, topics: Collection[str]) -> dict[str, tuple[str, int]]:
        """Id and number of partitions of each topic that is there."""
        futures = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=_TIMEOUT_S)
        found = {}
        for topic, future in futures.items():
            try:
                told = future.result(_TIMEOUT_S)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise self._away(error) from None
                continue
            except TimeoutError as error:
                raise self._away(error) from None
            found[topic] = (str(told.topic_id), len(told.partitions))
        return found

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
                    f"{ENV_KAFKA_CLIENT}: expected settings of librdkafka, found one that it does not take: "
                    f"{error.args[0].str()}"
                ) from None
        return self._client

    def _settings(self) -> dict[str, Any]:
        return {**client_settings(self._bootstrap), "error_cb": self._note}

    def _note(self, error: KafkaError) -> None:
        """Keep why the cluster lets nobody in, which the call that fails for it does not say."""
        if error.code() in _REFUSED:
            self._refused = error.str()
