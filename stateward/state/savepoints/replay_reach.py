"""Whether Kafka still has the records that a stream would read again, or ``raw_events`` has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from stateward.runtime.checkpoint.offsets import Offsets


class Kafka(Protocol):
    """The calls to a Kafka cluster; `broker.Broker` has them."""

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; 0 if it does not exist."""

    def describe(self, topics: Collection[str]) -> dict[str, tuple[str, int]]:
        """Id and number of partitions of each existing topic."""

    def begin_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """The first offset that each partition still holds."""

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """The next offset of each partition."""


@dataclass(frozen=True)
class Gap:
    """A partition that cannot be read from the expected offset.

    Attributes:
        topic: The topic.
        partition: Its number.
        expected: The next record to be read.
        begins: The first record that Kafka has; None if there is no such partition.
        ends: The next record that will be written; likewise None.
        other_topic: Whether the topic has another id than the one that was read.
    """

    topic: str
    partition: int
    expected: int
    begins: int | None
    ends: int | None
    other_topic: bool = False

    @property
    def is_recreated(self) -> bool:
        """Whether the topic was recreated: it has another id, or it ends before the expected record."""
        return self.other_topic or (self.ends is not None and self.ends < self.expected)

    @property
    def lost(self) -> int:
        """How many records are known to be lost; 0 for a recreated topic, where the number is unknown."""
        return 0 if self.begins is None or self.is_recreated else self.begins - self.expected

    @property
    def goes_on_at(self) -> int:
        """The next record that can be read; 0 for a partition that does not exist yet."""
        return self.begins or 0

    def __str__(self) -> str:
        where = f"topic {self.topic}, partition {self.partition}: expected the record {self.expected}"
        if self.begins is None:
            return f"{where}, found no such partition"
        if self.is_recreated:
            return f"{where}, found the end at {self.ends}: the topic was recreated"
        return f"{where}, found that Kafka begins with {self.begins}"


def records_since(kafka: Kafka, start: Offsets, topics: Sequence[str]) -> int:
    """Count the offsets between ``start`` and the ends of the topics."""
    waiting = 0
    for topic in topics:
        begun = start.get(topic, {})
        ends = kafka.end_offsets(topic, kafka.partitions(topic))
        waiting += sum(max(0, end - begun.get(partition, 0)) for partition, end in ends.items())
    return waiting


def out_of_reach(
    kafka: Kafka, start: Offsets, topics: Sequence[str], ids: Mapping[str, str] | None = None
) -> list[Gap]:
    """Return the partitions that cannot be read from ``start`` on.

    Args:
        kafka: The cluster.
        start: The next record of each partition.
        topics: The topics that are read.
        ids: Known ids of the topics that were read.
    """
    gaps: list[Gap] = []
    found = kafka.describe(topics)
    for topic in topics:
        was = (ids or {}).get(topic)
        is_other = was is not None and topic in found and found[topic][0] != was
        count = kafka.partitions(topic)
        begins, ends = kafka.begin_offsets(topic, count), kafka.end_offsets(topic, count)
        for partition, offset in sorted(start.get(topic, {}).items()):
            begin, end = begins.get(partition), ends.get(partition)
            if begin is None or end is None:
                gaps.append(Gap(topic, partition, offset, None, None))
            elif is_other or not begin <= offset <= end:
                gaps.append(Gap(topic, partition, offset, begin, end, is_other))
    return gaps


def landed_of(raw_uri: str, gap: Gap) -> int | None:
    """Count the lost records that ``raw_events`` has; None without that table."""
    try:
        rows = DeltaTable(raw_uri).to_pyarrow_dataset()
    except TableNotFoundError:
        return None
    offset, until = pc.field("offset"), gap.expected + gap.lost
    mine = (pc.field("topic") == gap.topic) & (pc.field("partition") == gap.partition)
    count: int = rows.count_rows(filter=mine & (offset >= gap.expected) & (offset < until))
    return count


def landed_since(raw_uri: str, topics: Sequence[str]) -> str:
    """Describe how far back ``raw_events`` reaches.

    Args:
        raw_uri: The table.
        topics: The topics to look for.
    """
    try:
        rows = DeltaTable(raw_uri).to_pyarrow_dataset()
    except TableNotFoundError:
        return "raw_events does not exist"
    texts = []
    for topic in topics:
        mine = pc.field("topic") == topic
        dates = rows.to_table(columns=["date"], filter=mine)["date"]
        first_day = pc.min(dates).as_py() if len(dates) else None
        if first_day is None:
            texts.append(f"raw_events has nothing of {topic}")
            continue
        # The day is a partition of the table, so that only its files are read.
        day = rows.to_table(columns=["record_timestamp"], filter=mine & (pc.field("date") == first_day))
        first = pc.min(day["record_timestamp"]).as_py()
        texts.append(f"raw_events has the records of {topic} from {first.isoformat()} on")
    return "; ".join(texts)
