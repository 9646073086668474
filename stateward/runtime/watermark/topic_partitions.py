"""Partitions of a stream's topics: their numbers within a launch, and their names in documents. Pure.

A stream that reads one topic names its partitions by their numbers, everywhere. For a stream that reads
several, documents name them ``topic/number``, and the records of a batch have a *slot*, one whole number for
topic and partition: it costs a record no more than the partition alone. Slots depend on the order of the
topics in the configuration, so no document has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

Partition = int | str
"""A partition in a document: its number, or ``topic/number`` if the stream reads several topics."""

V = TypeVar("V")

# Kafka allows no topic to have as many partitions.
_BITS = 20


@dataclass(frozen=True)
class Topics:
    """The data topics of a stream, in the order of its configuration."""

    names: tuple[str, ...]

    def slot(self, topic: str, partition: int) -> int:
        """The slot of a partition; with one topic it is the partition's number."""
        return (self.names.index(topic) << _BITS) + partition

    def number(self, slot: int) -> int:
        """Which of the topics a slot is of."""
        return slot >> _BITS

    def place(self, slot: int) -> tuple[str, int]:
        """The topic and the number of a partition, from its slot."""
        return self.names[slot >> _BITS], slot & ((1 << _BITS) - 1)

    def named(self, slot: int) -> Partition:
        """The name of a partition, from its slot."""
        return self.name(*self.place(slot))

    def name(self, topic: str, partition: int) -> Partition:
        """The name of a partition."""
        return partition if len(self.names) == 1 else f"{topic}/{partition}"

    def by_name(self, parts: Mapping[str, Mapping[int, V]]) -> dict[Partition, V]:
        """Values by topic and number, as values by name."""
        return {
            self.name(topic, partition): value
            for topic, values in parts.items()
            if topic in self.names
            for partition, value in values.items()
        }

    def by_slot(self, parts: Mapping[str, Mapping[int, V]]) -> dict[int, V]:
        """Values by topic and number, as values by slot."""
        return {
            self.slot(topic, partition): value
            for topic, values in parts.items()
            if topic in self.names
            for partition, value in values.items()
        }

    def renamed(self, found: Mapping[Partition, V], before: Iterable[str]) -> dict[Partition, V]:
        """Values by name for a stream that has read other topics before; those of other topics are left out.

        Args:
            found: Values by the names that the partitions had.
            before: The topics that it has read before. A number alone is a partition of the only one.
        """
        only = next(iter(before), self.names[0])
        renamed: dict[Partition, V] = {}
        for name, value in found.items():
            topic, _, number = name.rpartition("/") if isinstance(name, str) else (only, "", name)
            if topic in self.names:
                renamed[self.name(topic, int(number))] = value
        return renamed


def of_topic(found: Mapping[Partition, V], topic: str) -> dict[Partition, V]:
    """The values of one topic, of a stream that reads several."""
    return {name: value for name, value in found.items() if str(name).rpartition("/")[0] == topic}


def partition_name(text: str) -> Partition:
    """The name of a partition, from the text that a JSON object has for it."""
    return int(text) if text.isdigit() else text


def in_order(partitions: Iterable[Partition]) -> list[Partition]:
    """Names of partitions, sorted."""
    return sorted(partitions, key=lambda one: (isinstance(one, str), one))
