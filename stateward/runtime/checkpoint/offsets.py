"""Offset ranges of a micro-batch and their distribution over tasks. Pure.

Offsets are ``{topic: {partition: next offset}}``, as in Spark's own offset log.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from stateward.contract.conditions import Condition, ConditionError

Offsets = dict[str, dict[int, int]]


class DataLossError(ConditionError, RuntimeError):
    """The topic no longer contains the records to read next."""

    condition = Condition.DATA_LOSS


@dataclass(frozen=True)
class Range:
    """Offsets of one partition from ``begin`` (inclusive) to ``end`` (exclusive)."""

    topic: str
    partition: int
    begin: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets in the range."""
        return self.end - self.begin


def limited(start: Offsets, ends: Offsets, topics: Sequence[str], most: int) -> Offsets:
    """The end offsets of a batch: ``ends``, limited to ``most`` records of ``topics`` after ``start``.

    Each partition gets a share in proportion to its waiting records, and at least one record, so that no
    partition starves. Other topics are read to their ends.

    Raises:
        DataLossError: A partition is missing or ends before ``start``: the topic is a different one.
    """
    for name, partitions in start.items():
        for partition, offset in partitions.items():
            if (end := ends.get(name, {}).get(partition, 0)) < offset:
                raise DataLossError(
                    f"topic {name}, partition {partition}: expected records from offset {offset}, found the "
                    f"end at {end}. The topic was created again or truncated, or the stream's YAML names "
                    "another one. Restore the topic, or continue with this one: `stateward state skip "
                    "<stream>`."
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
    """The non-empty ranges between two sets of offsets."""
    found = [
        Range(topic, partition, start[topic][partition], until)
        for topic, partitions in end.items()
        for partition, until in partitions.items()
    ]
    return [one for one in found if one.size > 0]


def tasks(wanted: list[Range], *, fewest: int, most_tasks: int) -> list[list[Range]]:
    """Distribute ranges over tasks of equal size, independent of the sizes of the partitions.

    Args:
        wanted: The ranges to read.
        fewest: The smallest number of records for which a task is worth its start.
        most_tasks: The number of tasks of a large batch.
    """
    total = sum(one.size for one in wanted)
    count = max(1, min(most_tasks, total // fewest))
    cuts = [total * number // count for number in range(1, count + 1)]
    shared = _cut(wanted, cuts)
    return [share for share in shared if share]


def _cut(wanted: list[Range], cuts: list[int]) -> Iterator[list[Range]]:
    """Concatenate the ranges and cut them at the given distances from the start."""
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
