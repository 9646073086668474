"""Reads ranges of a topic within a Python worker, in C: librdkafka fetches, checks and unpacks.

Spark's own connector hands each record from the JVM to Python as Arrow; that alone costs ten microseconds a
record (docs/decisions/0004).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from stateward.contract.conditions import Condition, ConditionError
from stateward.contract.kafka_client import client_settings
from stateward.runtime.kafka.offsets import DataLossError, Range

_AT_ONCE = 500
# A look ends early when it has found what it was to find. The last offsets of a partition may hold no record.
_LOOK_S = 0.2
_MOST_EMPTY_LOOKS = 75

_SETTINGS: dict[str, Any] = {
    "group.id": "stateward",  # asked for by the client; nothing is committed to it
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    # Says where a partition ends, which no message does when its last offset holds none.
    "enable.partition.eof": True,
    # What is fetched beyond a range is thrown away, and a fetch that waits at the end of a partition holds up
    # the first one of the next task.
    "queued.max.messages.kbytes": 8192,
    "fetch.queue.backoff.ms": 1,
    "fetch.wait.max.ms": 10,
}

_consumers: dict[str, Consumer] = {}


class ReadError(ConditionError, RuntimeError):
    """Kafka did not deliver a range; the batch can run again."""

    condition = Condition.READ_FAILED


def read(bootstrap: str, wanted: Sequence[Range]) -> Iterator[list[Message]]:
    """The records of some ranges of one topic, in order within a partition.

    Args:
        bootstrap: Address of the cluster.
        wanted: Not empty, each partition at most once.

    Raises:
        DataLossError: The topic no longer holds them.
        ReadError: Kafka does not answer, or says that it cannot.
    """
    topic, left = wanted[0].topic, {one.partition: one.end for one in wanted}
    waiting = sum(one.size for one in wanted)
    consumer = _consumer(bootstrap)
    try:
        consumer.assign([TopicPartition(topic, one.partition, one.begin) for one in wanted])
        looks = 0
        while left:
            messages = consumer.consume(max(1, min(_AT_ONCE, waiting)), _LOOK_S)
            looks = 0 if messages else looks + 1
            if looks > _MOST_EMPTY_LOOKS:
                raise ReadError(
                    f"Kafka at {bootstrap} delivered nothing of {topic} for {looks * _LOOK_S:.0f} s"
                )
            records = _records(messages, left, topic, one_partition=len(wanted) == 1)
            waiting -= len(records)
            if len(left) < len(wanted):
                consumer.pause(_partitions(topic, wanted, left))
            if records:
                yield records
        # A partition that is paused stays so, whatever is assigned next.
        consumer.resume(_partitions(topic, wanted, left))
        consumer.unassign()
    except KafkaException as error:
        _drop(bootstrap)
        raise ReadError(f"topic {topic} at {bootstrap}: {error}") from None
    except BaseException:
        _drop(bootstrap)
        raise


def _partitions(topic: str, wanted: Sequence[Range], left: Mapping[int, int]) -> list[TopicPartition]:
    """Those whose range has been read."""
    return [TopicPartition(topic, one.partition) for one in wanted if one.partition not in left]


def _records(
    messages: list[Message], left: dict[int, int], topic: str, *, one_partition: bool
) -> list[Message]:
    """The messages that are records of their range; notes ranges that end."""
    if messages and one_partition:
        # Almost always all of them: in order, and the last one is not near the end.
        (end,) = left.values()
        last = messages[-1].offset()
        if last is not None and last < end - 1 and not any(message.error() for message in messages):
            return messages
    return [message for message in messages if _is_wanted(message, left, topic)]


def _is_wanted(message: Message, left: dict[int, int], topic: str) -> bool:
    """Whether the message is a record of its range; notes the end of the range."""
    partition, offset, error = message.partition(), message.offset(), message.error()
    if error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
        # The client asks for the coordinator of its group, which it does not need for what it is assigned.
        return False
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise _refusal(error, topic, partition)
    assert partition is not None  # known of every record, and of every end of a partition
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
            f"({error}). Its retention was shorter than the stream's absence. Restore the records, or see "
            "what is lost and go on after it: `stateward state skip <stream> --dry-run`."
        )
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return ReadError(f"topic {topic}: the user of the Kafka clients may not Read it (docs/kafka.md)")
    return ReadError(f"topic {topic}, partition {partition}: {error}")


def _consumer(bootstrap: str) -> Consumer:
    """The worker's consumer: a connection outlives the task."""
    if bootstrap not in _consumers:
        _consumers[bootstrap] = Consumer({**_SETTINGS, **client_settings(bootstrap)})
    return _consumers[bootstrap]


def _drop(bootstrap: str) -> None:
    """After a failure the next task begins with a client that asks anew who leads."""
    consumer = _consumers.pop(bootstrap, None)
    if consumer is not None:
        consumer.close()
