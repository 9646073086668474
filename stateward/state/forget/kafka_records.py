"""The records of a key that Kafka still holds: nothing here removes them, so they are named."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from stateward.contract.privacy.forgotten import Span, spans_of
from stateward.runtime.checkpoint.offsets import Range
from stateward.state.forget.subject import Subject
from stateward.state.savepoints.replay_reach import Kafka

if TYPE_CHECKING:
    from confluent_kafka import Message

ReadRecords = Callable[[Sequence[Range]], Iterator[Sequence["Message"]]]
"""Reads ranges of one topic."""


class Cluster(Kafka, Protocol):
    """The calls to a cluster; `broker.Broker` has them."""

    def retention(self, topic: str) -> str:
        """How long a topic keeps its records, as text."""


@dataclass(frozen=True)
class HeldRecords:
    """Records of a key in one topic.

    Attributes:
        topic: The topic.
        topic_id: Kafka's id of it.
        offsets: By partition.
        retention: How long the topic keeps its records, as text.
        until: The end of each partition, up to which was read.
    """

    topic: str
    topic_id: str
    offsets: dict[int, tuple[Span, ...]]
    retention: str
    until: dict[int, int]


def held_records(
    cluster: Cluster, read: ReadRecords, topics: Iterable[str], subject: Subject
) -> Iterator[HeldRecords]:
    """Read whole topics, up to their ends now, and yield the records of a key.

    Args:
        cluster: The cluster.
        read: Reads records.
        topics: The topics; one that does not exist holds nothing.
        subject: The key.

    Raises:
        BrokerAwayError: Kafka does not answer.
        ReadError: Kafka does not deliver a range.
    """
    for topic in topics:
        described = cluster.describe([topic]).get(topic)
        if described is None:
            continue
        topic_id, count = described
        begins, ends = cluster.begin_offsets(topic, count), cluster.end_offsets(topic, count)
        wanted = [
            Range(topic, partition, begins[partition], ends[partition])
            for partition in range(count)
            if begins[partition] < ends[partition]
        ]
        found: dict[int, list[int]] = defaultdict(list)
        for messages in read(wanted) if wanted else ():
            for message in messages:
                if subject.is_in_record(message.key(), message.value()):
                    found[message.partition() or 0].append(message.offset() or 0)
        offsets = {partition: spans_of(one) for partition, one in sorted(found.items())}
        yield HeldRecords(topic, topic_id, offsets, cluster.retention(topic) if offsets else "", ends)
