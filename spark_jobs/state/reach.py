"""Whether Kafka still holds what a stream would read again, and what ``raw_events`` has instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from spark_jobs.runtime.offsets import Offsets


class Kafka(Protocol):
    """What is asked of a cluster; `broker.Broker` is one."""

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; 0 if it does not exist."""

    def begin_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """The first offset that each partition still holds."""

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """The next offset of each partition."""


def records_since(kafka: Kafka, start: Offsets, topics: Sequence[str]) -> int:
    """How many offsets lie between ``start`` and the ends of the topics."""
    waiting = 0
    for topic in topics:
        begun = start.get(topic, {})
        ends = kafka.end_offsets(topic, kafka.partitions(topic))
        waiting += sum(max(0, end - begun.get(partition, 0)) for partition, end in ends.items())
    return waiting


def out_of_reach(kafka: Kafka, start: Offsets, topics: Sequence[str]) -> list[str]:
    """Why Kafka cannot be read from ``start`` on, a text for each partition; empty if it can."""
    problems: list[str] = []
    for topic in topics:
        wanted = start.get(topic, {})
        count = kafka.partitions(topic)
        begins, ends = kafka.begin_offsets(topic, count), kafka.end_offsets(topic, count)
        for partition, offset in sorted(wanted.items()):
            where = f"topic {topic}, partition {partition}: expected the record {offset}"
            if partition not in ends:
                problems.append(f"{where}, found no such partition")
            elif begins[partition] > offset:
                problems.append(f"{where}, found that Kafka begins with {begins[partition]}")
            elif ends[partition] < offset:
                problems.append(f"{where}, found the end at {ends[partition]}: the topic was made anew")
    return problems


def landed_since(raw_uri: str, topics: Sequence[str]) -> str:
    """How far back ``raw_events`` reaches, in words.

    Args:
        raw_uri: The table.
        topics: Those that are asked for.
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
