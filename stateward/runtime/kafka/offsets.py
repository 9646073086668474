"""Which of Kafka's records a micro-batch reads, and in which tasks. Pure.

Offsets are ``{topic: {partition: next offset}}``, as in Spark's own offset log, so a checkpoint reads alike
whatever scanned the topic.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from stateward.contract.conditions import Condition, ConditionError

Offsets = dict[str, dict[int, int]]


class DataLossError(ConditionError, RuntimeError):
    """The topic no longer holds what is to be read next."""

    condition = Condition.DATA_LOSS


@dataclass(frozen=True)
class Range:
    """Records of one partition from ``begin`` up to, not including, ``end``."""

    topic: str
    partition: int
    begin: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets it spans."""
        return self.end - self.begin


def limited(start: Offsets, ends: Offsets, topics: Sequence[str], most: int) -> Offsets:
    """Where a batch ends: at ``ends``, or, of ``topics`` together, ``most`` records after ``start``.

    What may be read is shared out by how much waits in each partition, and one that waits gets at least one
    record, so no partition starves. Other topics are read to their ends.

    Raises:
        DataLossError: A partition ends before ``start``, or is gone: the topic is not the one it was.
    """
    for name, partitions in start.items():
        for partition, offset in partitions.items():
            if (end := ends.get(name, {}).get(partition, 0)) < offset:
                raise DataLossError(
                    f"topic {name}, partition {partition}: expected records from offset {offset}, found the "
                    f"end at {end}. The topic was made anew or cut off, or the stream's YAML names another "
                    "one. Restore the topic, or go on with this one: `stateward state skip <stream>`."
                )
    total = sum(end - start[topic][p] for topic in topics for p, end in ends[topic].items())
    if total <= most:
        return ends
    cut = {
        topic: {
            p: start[topic][p] + _share(end - start[topic][p], most, total) for p, end in ends[topic].items()
        }
        for topic in topics
    }
    return {**ends, **cut}


def _share(count: int, most: int, total: int) -> int:
    return min(count, max(1, count * most // total))


def ranges(start: Offsets, end: Offsets) -> list[Range]:
    """What lies between two points, empty ranges left out."""
    found = [
        Range(topic, partition, start[topic][partition], until)
        for topic, partitions in end.items()
        for partition, until in partitions.items()
    ]
    return [one for one in found if one.size > 0]


def tasks(wanted: list[Range], *, fewest: int, most_tasks: int) -> list[list[Range]]:
    """Share ranges out to tasks of the same size, whatever the sizes of the partitions.

    Args:
        wanted: What to read.
        fewest: Records that make a task worth its start.
        most_tasks: Number of tasks of a large batch.
    """
    total = sum(one.size for one in wanted)
    count = max(1, min(most_tasks, total // fewest))
    cuts = [total * number // count for number in range(1, count + 1)]
    shared = _cut(wanted, cuts)
    return [share for share in shared if share]


def _cut(wanted: list[Range], cuts: list[int]) -> Iterator[list[Range]]:
    """Cut the ranges, laid end to end, at the given distances from their begin."""
    waiting, position = list(reversed(wanted)), 0
    for cut in cuts:
        share: list[Range] = []
        while waiting and position < cut:
            one = waiting.pop()
            size = min(one.size, cut - position)
            share.append(replace(one, end=one.begin + size))
            position += size
            if size < one.size:
                waiting.append(replace(one, begin=one.begin + size))
        yield share
