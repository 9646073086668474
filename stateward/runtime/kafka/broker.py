"""The driver's own requests to Kafka: topics, end offsets and the broker's time."""

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

from stateward.contract.clients.kafka import BROKERS_DEFAULT, KafkaClientError, client_settings
from stateward.contract.conditions import Condition, ConditionError
from stateward.contract.names import ENV_KAFKA_CLIENT

_TIMEOUT_S = 5.0
_ON_ITS_WAY = (KafkaError.LEADER_NOT_AVAILABLE, KafkaError.REPLICA_NOT_AVAILABLE)
# Errors of a partition that was just created or whose leader changes; they clear up within a second.
_SETTLING = (*_ON_ITS_WAY, KafkaError.NOT_LEADER_FOR_PARTITION)
_PAUSES_S = (0.2, 0.4, 0.8, 1.6)
_REFUSED = (KafkaError._AUTHENTICATION, KafkaError._SSL)
_TICK_RETENTION_MS = 24 * 3600 * 1000
_STAMPED = ("message.timestamp.type", "LogAppendTime")


class BrokerAwayError(ConditionError, RuntimeError):
    """Kafka did not answer; a later retry may succeed."""

    condition = Condition.BROKER_AWAY


class TopicMissingError(ConditionError, RuntimeError):
    """A topic does not exist and creating it is not allowed."""

    condition = Condition.TOPIC_MISSING


class Broker:
    """A Kafka cluster. Every call raises `BrokerAwayError` when it does not answer in time."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._client: AdminClient | None = None
        self._producer: Producer | None = None
        self._refused = ""

    def partitions(self, topic: str) -> int:
        """The number of partitions of a topic; 0 if it does not exist."""
        try:
            metadata = self._admin.list_topics(timeout=_TIMEOUT_S).topics.get(topic)
        except KafkaException as error:
            raise self._away(error) from None
        if metadata is not None and metadata.error and metadata.error.code() in _ON_ITS_WAY:
            # The topic exists; 0 would mean that it does not.
            raise self._away(metadata.error)
        return 0 if metadata is None or metadata.error else len(metadata.partitions)

    def ensure_topic(self, topic: str, partitions: int, *, create: bool, stream: str) -> int:
        """Create a topic if it does not exist and return its number of partitions.

        Raises:
            TopicMissingError: It does not exist and ``create`` is false.
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
        """Create the topic that gives the broker's time, or set its timestamps to those of the broker.

        A topic of an earlier release has producers' timestamps. If this user must not alter it, `append_time`
        reports that later.
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
        """The first offset that is still in each partition."""
        return self._offsets(topic, partitions, OffsetSpec.earliest())

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """The next offset of each partition; records of open transactions are excluded."""
        return self._offsets(topic, partitions, OffsetSpec.latest())

    def _offsets(self, topic: str, partitions: int, spec: OffsetSpec) -> dict[int, int]:
        wanted = {TopicPartition(topic, partition): spec for partition in range(partitions)}
        for pause_s in _PAUSES_S:
            try:
                return self._listed(wanted)
            except KafkaException as error:
                away = self._away(error)  # also drops the client and its cached leaders
                if error.args[0].code() not in _SETTLING:
                    raise away from None
                threading.Event().wait(pause_s)
        try:
            return self._listed(wanted)
        except KafkaException as error:
            raise self._away(error) from None

    def _listed(self, wanted: dict[TopicPartition, OffsetSpec]) -> dict[int, int]:
        """Request offsets once.

        Raises:
            BrokerAwayError: Kafka did not answer.
            KafkaException: Kafka answered with an error.
        """
        try:
            futures = self._admin.list_offsets(
                wanted, request_timeout=_TIMEOUT_S, isolation_level=IsolationLevel.READ_COMMITTED
            )
            return {key.partition: future.result(_TIMEOUT_S).offset for key, future in futures.items()}
        except TimeoutError as error:
            raise self._away(error) from None

    def append_time(self, topic: str) -> int:
        """The broker's time, ms since 1970 UTC: the timestamp it gives to a record sent now.

        Raises:
            TopicMissingError: The topic does not use the broker's timestamps.
        """
        if self._producer is None:
            self._producer = Producer({**self._settings(), "acks": "all", "message.timeout.ms": 5000})
        reports: list[tuple[KafkaError | None, Message]] = []
        self._producer.produce(topic, value=b"", partition=0, on_delivery=lambda *one: reports.append(one))
        if self._producer.flush(_TIMEOUT_S * 2) or not reports:
            raise BrokerAwayError(f"Kafka at {self._bootstrap} did not take a record of {topic}")
        [(error, message)] = reports
        if error is not None:
            raise self._away(error)
        kind, stamp_ms = message.timestamp()
        if kind != TIMESTAMP_LOG_APPEND_TIME:
            raise TopicMissingError(
                f"topic {topic}: expected {_STAMPED[0]}={_STAMPED[1]}, which gives the stream the broker's "
                "time, found producers' timestamps. Set this on the topic, or delete the topic: the driver "
                "creates it again if it may."
            )
        return int(stamp_ms)

    def describe(self, topics: Collection[str]) -> dict[str, tuple[str, int]]:
        """Id and number of partitions of each existing topic."""
        futures = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=_TIMEOUT_S)
        found = {}
        for topic, future in futures.items():
            try:
                description = future.result(_TIMEOUT_S)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise self._away(error) from None
                continue
            except TimeoutError as error:
                raise self._away(error) from None
            found[topic] = (str(description.topic_id), len(description.partitions))
        return found

    def retention(self, topic: str) -> str:
        """How long a topic keeps its records, as Kafka's settings have it."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        try:
            [future] = self._admin.describe_configs([resource], request_timeout=_TIMEOUT_S).values()
            found = future.result(_TIMEOUT_S)
        except (KafkaException, TimeoutError) as error:
            raise self._away(error) from None
        names = ("cleanup.policy", "retention.ms", "retention.bytes")
        return ", ".join(f"{name}={found[name].value}" for name in names if name in found)

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
        # After a broker's restart a client may keep using an outdated leader epoch and be refused forever.
        # A new client looks up the leader first. It also reads the operator's settings file again, which
        # may contain a changed password.
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
                    f"{ENV_KAFKA_CLIENT}: expected settings of librdkafka, found an invalid one: "
                    f"{error.args[0].str()}"
                ) from None
        return self._client

    def _settings(self) -> dict[str, Any]:
        return {**client_settings(self._bootstrap), "error_cb": self._note}

    def _note(self, error: KafkaError) -> None:
        """Keep the reason of a refused connection; the call that fails because of it does not contain it."""
        if error.code() in _REFUSED:
            self._refused = error.str()
