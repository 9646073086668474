"""Raw values of records that only their key's state has made late, read from Kafka once more.

The reader keeps the raw value of an event before the watermark alone: whether an event lies below the floor
of its key (`admission`) is known where the state is, and to carry every value there would double what goes
through the shuffle. Such events are few, and their batch has just read them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import zip_longest

from stateward.runtime.kafka import reader
from stateward.runtime.kafka.offsets import Range

Place = tuple[int, int]
"""Partition and offset."""

# Records that lie closer are read with those between them, for less than another look at the broker.
_GAP = 1000


class LateValues:
    """Reads them; is sent to the workers.

    Args:
        bootstrap: Address of the cluster.
        topic: The data topic.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic

    def __call__(self, places: Collection[Place]) -> dict[Place, bytes | None]:
        """The values of some records.

        Raises:
            DataLossError: The topic no longer holds one.
            ReadError: Kafka does not answer.
        """
        found = {}
        for wanted in rounds(places, self._topic):
            for messages in reader.read(self._bootstrap, wanted):
                for message in messages:
                    place = message.partition() or 0, message.offset() or 0
                    if place in places:
                        found[place] = message.value()
        return found


def rounds(places: Collection[Place], topic: str) -> Iterator[list[Range]]:
    """Ranges that hold all the places; in one round each partition is there at most once."""
    by_partition: dict[int, list[Range]] = {}
    for partition, offset in sorted(places):
        ranges = by_partition.setdefault(partition, [])
        begin = offset
        if ranges and offset - ranges[-1].end < _GAP:
            begin = ranges.pop().begin
        ranges.append(Range(topic, partition, begin, offset + 1))
    for together in zip_longest(*by_partition.values()):
        yield [one for one in together if one is not None]
