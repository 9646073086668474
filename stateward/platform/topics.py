"""Topics: make sure one is there before a stream or a replay uses it."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stateward.contract.clients.kafka import BROKERS_DEFAULT, client_settings

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_LOGGER = logging.getLogger(__name__)


class BrokerUnreachableError(RuntimeError):
    """No broker answers at the bootstrap servers."""


class TopicMissingError(RuntimeError):
    """The topic does not exist, and this installation may not create it."""


class TopicForbiddenError(RuntimeError):
    """The user of the Kafka clients lacks a right on the topic."""


def admin_client(bootstrap_servers: str, client: Path | None = None) -> AdminClient:
    """Return a quiet admin client; it connects lazily."""
    from confluent_kafka.admin import AdminClient

    return AdminClient(client_settings(bootstrap_servers, client))


def broker_answers(bootstrap_servers: str, timeout_s: float = 2.0) -> bool:
    """Return whether a broker lists its topics within `timeout_s` seconds."""
    from confluent_kafka import KafkaException

    try:
        return bool(admin_client(bootstrap_servers).list_topics(timeout=timeout_s).brokers)
    except KafkaException:
        return False


def partition_count(
    bootstrap_servers: str,
    topic: str,
    timeout_s: float = 10.0,
    *,
    to_write: bool = False,
    client_file: Path | None = None,
) -> int:
    """Return the number of partitions of `topic`, 0 when there is no such topic.

    Args:
        bootstrap_servers: Kafka's addresses.
        topic: name of the topic.
        timeout_s: limit for the request, seconds.
        to_write: whether the topic is to be written.
        client_file: settings of the client, in place of those of `STATEWARD_KAFKA_CLIENT`.

    Raises:
        BrokerUnreachableError: no broker answered within `timeout_s` seconds.
        TopicForbiddenError: the topic may not be described, or not be written.
    """
    from confluent_kafka import KafkaError, KafkaException, TopicCollection
    from confluent_kafka.admin import AclOperation, AdminClient

    noted: list[KafkaError] = []
    settings: dict[str, Any] = {**client_settings(bootstrap_servers, client_file), "error_cb": noted.append}
    client = None
    try:
        client = AdminClient(settings)
        # A list of all topics has none that may not be described, and to ask for one may create it.
        asked = client.describe_topics(
            TopicCollection([topic]), request_timeout=timeout_s, include_authorized_operations=True
        )
        found = asked[topic].result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return 0
        if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise TopicForbiddenError(forbidden(bootstrap_servers, topic, "Describe")) from error
        if client is not None:
            client.poll(0)
        refused = (KafkaError._AUTHENTICATION, KafkaError._SSL)
        # The call that fails does not report why the cluster refuses the client.
        why = next((one.str() for one in noted if one.code() in refused), error.args[0])
        raise BrokerUnreachableError(
            f"no Kafka broker answers at {bootstrap_servers} within {timeout_s:g} s ({why}); "
            "start the embedded one with `stateward up`, or set STATEWARD_KAFKA_BOOTSTRAP, and "
            "STATEWARD_KAFKA_CLIENT if it takes a password (docs/kafka.md)"
        ) from error
    # A producer without the right ends with an error of its own id, and in confluent-kafka 2.16 with a crash.
    allowed = found.authorized_operations
    if to_write and allowed is not None and AclOperation.WRITE not in allowed:
        raise TopicForbiddenError(forbidden(bootstrap_servers, topic, "Write"))
    return len(found.partitions)


def forbidden(bootstrap_servers: str, topic: str, right: str) -> str:
    """Say which right the user of the Kafka clients lacks."""
    return (
        f"topic {topic!r} at {bootstrap_servers}: the user of the Kafka clients may not {right} it. Give it "
        f"the right {right} on the topic (docs/kafka.md)."
    )


def ensure_topic(
    bootstrap_servers: str,
    topic: str,
    partitions: int,
    *,
    create: bool,
    to_write: bool = False,
    timeout_s: float = 15.0,
) -> int:
    """Make sure that `topic` exists, and return how many partitions it has.

    An existing topic is left as it is, whatever `partitions` says: adding partitions would move keys.

    Args:
        bootstrap_servers: Kafka's addresses.
        topic: name of the topic.
        partitions: partitions of the topic when it has to be created.
        create: whether it may be created (`Settings.may_create_topics`).
        to_write: whether the topic is to be written.
        timeout_s: limit for each request to the broker, seconds.

    Raises:
        TopicMissingError: it is not there and `create` is false, or the broker refused to create it.
        TopicForbiddenError: it may not be described, created or written.
        BrokerUnreachableError: no broker answered.
    """
    if found := partition_count(bootstrap_servers, topic, timeout_s, to_write=to_write):
        return found
    if not create:
        raise TopicMissingError(
            f"topic {topic!r} does not exist at {bootstrap_servers}; create it there, or set "
            f"STATEWARD_CREATE_TOPICS_AT={bootstrap_servers} to have missing topics created there"
        )
    _create(bootstrap_servers, topic, partitions, timeout_s)
    # The broker acknowledges before every listing shows the topic.
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if found := partition_count(bootstrap_servers, topic, timeout_s, to_write=to_write):
            return found
        time.sleep(0.05)
    raise TopicMissingError(
        f"topic {topic!r} was created at {bootstrap_servers} and did not appear within {timeout_s:g} s"
    )


def delete_topic(
    bootstrap_servers: str, topic: str, client_file: Path | None = None, timeout_s: float = 15.0
) -> None:
    """Delete `topic`; harmless if there is none.

    Raises:
        TopicForbiddenError: the user of the Kafka clients may not delete it.
        BrokerUnreachableError: it could not be deleted.
    """
    from confluent_kafka import KafkaError, KafkaException

    client = admin_client(bootstrap_servers, client_file)
    try:
        client.delete_topics([topic], request_timeout=timeout_s)[topic].result(timeout=timeout_s)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise TopicForbiddenError(forbidden(bootstrap_servers, topic, "Delete")) from error
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise BrokerUnreachableError(
                f"topic {topic!r} could not be deleted at {bootstrap_servers}: {error.args[0].str()}"
            ) from error


def _create(bootstrap_servers: str, topic: str, partitions: int, timeout_s: float) -> None:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.cimpl import NewTopic

    request = NewTopic(topic, partitions, BROKERS_DEFAULT)
    # Named, because the request is cancelled when its client is collected.
    client = admin_client(bootstrap_servers)
    future = client.create_topics([request], request_timeout=timeout_s)[topic]
    try:
        future.result(timeout=timeout_s)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise TopicForbiddenError(forbidden(bootstrap_servers, topic, "Create")) from error
        # Another process has created it: its topic is as good as ours.
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise TopicMissingError(
                f"topic {topic!r} could not be created at {bootstrap_servers}: {error.args[0].str()}"
            ) from error
    _LOGGER.info("created topic %s with %d partitions", topic, partitions)
