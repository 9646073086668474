"""Raw values of records that are late only because of their key's state, read from Kafka again.

The decoder keeps the raw value only of events before the watermark. Whether an event is below the floor of
its key (`admission`) is known only beside the state, and sending every value there would double the shuffle.
Such events are few, and their batch has just read them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import zip_longest

from stateward.runtime.checkpoint.offsets import Range
from stateward.runtime.kafka import reader
from stateward.runtime.watermark.topic_partitions import Topics

Place = tuple[int, int]
"""Slot of the partition (`topic_partitions`), and offset."""

# Records closer than this are read together with those between them: cheaper than another fetch.
_GAP = 1000


class LateValues:
    """Reads the values; pickled for the workers.

    Args:
        bootstrap: Address of the cluster.
        topics: The data topics.
    """

    def __init__(self, bootstrap: str, topics: Topics) -> None:
        self._bootstrap = bootstrap
        self._topics = topics

    def __call__(self, places: Collection[Place]) -> dict[Place, bytes | None]:
        """Read the values of the given records.

        Raises:
            DataLossError: The topic no longer contains one of them.
            ReadError: Kafka does not answer.
        """
        found = {}
        by_topic: dict[str, list[Place]] = defaultdict(list)
        for slot, offset in places:
            topic, partition = self._topics.place(slot)
            by_topic[topic].append((partition, offset))
        for topic, mine in by_topic.items():
            for wanted in range_groups(mine, topic):
                for messages in reader.read(self._bootstrap, wanted):
                    for message in messages:
                        place = self._topics.slot(topic, message.partition() or 0), message.offset() or 0
                        if place in places:
                            found[place] = message.value()
        return found


def range_groups(places: Collection[tuple[int, int]], topic: str) -> Iterator[list[Range]]:
    """Groups of ranges that cover all places; a group contains each partition at most once.

    Args:
        places: Partitions and offsets.
        topic: Their topic.
    """
    by_partition: dict[int, list[Range]] = {}
    for partition, offset in sorted(places):
        ranges = by_partition.setdefault(partition, [])
        begin = offset
        if ranges and offset - ranges[-1].end < _GAP:
            begin = ranges.pop().begin
        ranges.append(Range(topic, partition, begin, offset + 1))
    for together in zip_longest(*by_partition.values()):
        yield [one for one in together if one is not None]
