"""Reads ranges of a topic in a Python worker with librdkafka.

Spark's own connector passes each record from the JVM to Python as Arrow, which costs ten microseconds a
record (docs/decisions/0004).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from stateward.contract.clients.kafka import client_settings
from stateward.contract.conditions import Condition, ConditionError
from stateward.runtime.checkpoint.offsets import DataLossError, Range
from stateward.runtime.kafka.rate import rate_at

_MESSAGES_PER_POLL = 500
# A poll returns early once it has enough messages. The last offsets of a partition may contain no record.
_POLL_S = 0.2
_MAX_EMPTY_POLLS = 75

_SETTINGS: dict[str, Any] = {
    "group.id": "stateward",  # required by the client; no offsets are committed
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    # Reports the end of a partition, also when its last offset contains no record.
    "enable.partition.eof": True,
    # Records fetched beyond a range are discarded, and a fetch that waits at the end of a partition delays
    # the first fetch of the next task.
    "queued.max.messages.kbytes": 8192,
    "fetch.queue.backoff.ms": 1,
    "fetch.wait.max.ms": 10,
}

_consumers: dict[str, Consumer] = {}


class ReadError(ConditionError, RuntimeError):
    """Kafka did not deliver a range; the batch can run again."""

    condition = Condition.READ_FAILED


def read(bootstrap: str, wanted: Sequence[Range]) -> Iterator[list[Message]]:
    """Read ranges of one topic, in order within each partition.

    Args:
        bootstrap: Address of the cluster.
        wanted: The ranges; not empty, each partition at most once.

    Raises:
        DataLossError: The topic no longer contains the records.
        ReadError: Kafka does not answer, or answers with an error.
    """
    if (made := rate_at(bootstrap)) is not None:
        yield from made.read(wanted)
        return
    topic, left = wanted[0].topic, {one.partition: one.end for one in wanted}
    waiting = sum(one.size for one in wanted)
    consumer = _consumer(bootstrap)
    try:
        consumer.assign([TopicPartition(topic, one.partition, one.begin) for one in wanted])
        empty_polls = 0
        while left:
            messages = consumer.consume(max(1, min(_MESSAGES_PER_POLL, waiting)), _POLL_S)
            empty_polls = 0 if messages else empty_polls + 1
            if empty_polls > _MAX_EMPTY_POLLS:
                raise ReadError(
                    f"Kafka at {bootstrap} delivered nothing of {topic} for {empty_polls * _POLL_S:.0f} s"
                )
            records = _records(messages, left, topic, one_partition=len(wanted) == 1)
            waiting -= len(records)
            if len(left) < len(wanted):
                consumer.pause(_partitions(topic, wanted, left))
            if records:
                yield records
        # A paused partition stays paused when it is assigned again.
        consumer.resume(_partitions(topic, wanted, left))
        consumer.unassign()
    except KafkaException as error:
        _drop(bootstrap)
        raise ReadError(f"topic {topic} at {bootstrap}: {error}") from None
    except BaseException:
        _drop(bootstrap)
        raise


def _partitions(topic: str, wanted: Sequence[Range], left: Mapping[int, int]) -> list[TopicPartition]:
    """The partitions whose ranges are complete."""
    return [TopicPartition(topic, one.partition) for one in wanted if one.partition not in left]


def _records(
    messages: list[Message], left: dict[int, int], topic: str, *, one_partition: bool
) -> list[Message]:
    """The messages that are records of their ranges; removes complete ranges from ``left``."""
    if messages and one_partition:
        # The common case: all of them are records, and the last one is not near the end.
        (end,) = left.values()
        last = messages[-1].offset()
        if last is not None and last < end - 1 and not any(message.error() for message in messages):
            return messages
    return [message for message in messages if _is_wanted(message, left, topic)]


def _is_wanted(message: Message, left: dict[int, int], topic: str) -> bool:
    """Whether the message is a record of its range; removes a complete range from ``left``."""
    partition, offset, error = message.partition(), message.offset(), message.error()
    if error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
        # The client looks up the coordinator of its group, which an assignment by hand does not need.
        return False
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise _refusal(error, topic, partition)
    assert partition is not None  # set for every record and every end of a partition
    assert offset is not None
    end = left.get(partition, -1)
    if error is not None:
        if offset >= end:
            left.pop(partition, None)
        return False
    if offset >= end - 1:
        left.pop(partition, None)
    return offset < end


def _refusal(error: KafkaError, topic: str, partition: int | None) -> RuntimeError:
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        return DataLossError(
            f"topic {topic}, partition {partition}: the records to be read next are no longer in Kafka "
            f"({error}). The stream was stopped for longer than the topic's retention. Restore the records, "
            "or list what is lost and continue after it: `stateward state skip <stream> --dry-run`."
        )
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return ReadError(f"topic {topic}: the user of the Kafka clients may not Read it (docs/kafka.md)")
    return ReadError(f"topic {topic}, partition {partition}: {error}")


def _consumer(bootstrap: str) -> Consumer:
    """The worker's consumer, which outlives the task."""
    if bootstrap not in _consumers:
        _consumers[bootstrap] = Consumer({**_SETTINGS, **client_settings(bootstrap)})
    return _consumers[bootstrap]


def _drop(bootstrap: str) -> None:
    """Close the consumer after a failure, so that the next task looks up the leaders again."""
    consumer = _consumers.pop(bootstrap, None)
    if consumer is not None:
        consumer.close()
