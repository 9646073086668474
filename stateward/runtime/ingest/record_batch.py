"""The common part of all decoders: ticks, dead letters and the batch's watermark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stateward.runtime.api.record_fields import TICK_KEY, Bounds, Field
from stateward.runtime.checkpoint.checkpoint import Checkpoint, PlannedBatch
from stateward.runtime.ingest.parse import Parsed, Rejection, place_id
from stateward.runtime.ingest.shaped_records import parser_of
from stateward.runtime.session import BATCH_ID_PROPERTY
from stateward.runtime.watermark.partition_times import TimeTracker
from stateward.runtime.watermark.topic_partitions import Topics

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Message

Place = tuple[int, int, int]
"""Slot of the partition (`topic_partitions`), offset and Kafka timestamp (ms) of a record."""

_TICK_KEY = TICK_KEY.encode()


class RecordTask(ABC):
    """The records that one task has decoded so far.

    Args:
        topics: The data topics.
        fields: All declared fields.
        bounds: Limits of a record and of its time.
        now_ms: The broker's time when the batch was planned.
    """

    def __init__(self, topics: Topics, fields: tuple[Field, ...], bounds: Bounds, now_ms: int) -> None:
        self._topics = topics
        self._topic, self._first_slot = topics.names[0], 0
        parser = parser_of(fields, bounds)
        self._parse: Callable[[bytes | None, int | None], Parsed | Rejection] = parser.parse
        # Asked once: the records of most streams have ids, and pay nothing for those of others.
        self._take_record = self._record
        if parser.names_places:
            self._parse_value, self._parse = parser.parse, self._parse_placed
            self._take_record = self._record_placed
        self._now_ms = now_ms
        self._watch = TimeTracker(now_ms, bounds.not_before_ms, topics)
        self._newest = self._watch.newest
        self._dead: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        self._data_ticks: dict[int, int] = defaultdict(int)
        self._ticks: list[datetime] = []
        self._others: Counter[int] = Counter()

    def begin(self, topic: str, partitions: Sequence[int]) -> None:
        """Announce the topic and the partitions of the next records."""
        self._topic, self._first_slot = topic, self._topics.slot(topic, 0)
        self._watch.read(self._first_slot, partitions)

    def take(self, messages: Sequence[Message]) -> None:
        """Parse and classify records of the topic that was announced."""
        self._watch.records(messages)
        first_slot, take_record = self._first_slot, self._take_record
        for message in messages:
            key = message.key()
            partition = first_slot + (message.partition() or 0)
            offset = message.offset() or 0
            if key == _TICK_KEY:
                self._data_ticks[partition] += 1
                self._watch.end_of_replay(partition, offset, message.value())
            else:
                take_record((partition, offset, message.timestamp()[1]), key, message.value())

    def leave_out(self, messages: Sequence[Message]) -> None:
        """Count records of forgotten keys: they were delivered, and nothing else is known of them."""
        self._watch.records(messages)
        for message in messages:
            self._others[self._first_slot + (message.partition() or 0)] += 1

    def tick(self, tick_ms: int) -> None:
        """Add the batch's tick."""
        self._ticks.append(datetime.fromtimestamp(tick_ms / 1000, UTC))

    @abstractmethod
    def rows(self) -> Iterator[pa.RecordBatch]:
        """All resulting rows."""

    @abstractmethod
    def _record(self, place: Place, key: bytes | None, value: bytes | None) -> None:
        """Decode one record."""

    def _record_placed(self, place: Place, key: bytes | None, value: bytes | None) -> None:
        """Decode one record of a stream whose events have no ids."""
        self._place = place
        self._record(place, key, value)

    def _parse_placed(self, value: bytes | None, now_ms: int | None) -> Parsed | Rejection:
        parsed = self._parse_value(value, now_ms)
        if isinstance(parsed, Parsed):
            slot, offset, _ = self._place
            parsed.record.event_id = place_id(*self._topics.place(slot), offset)
        return parsed

    def _where(self, place: Place) -> tuple[str, int, int, int]:
        """Topic, partition, offset and timestamp, as tables have them."""
        return self._topic, place[0] - self._first_slot, place[1], place[2]

    def _reject(self, place: Place, key: bytes | None, value: bytes | None, why: Rejection) -> None:
        self._dead[place[0]].append((*self._where(place), key, value, why.reason.value, why.detail))


@dataclass(frozen=True)
class NextWatermark:
    """Computes the watermark that follows from the tick of the running batch.

    Spark advances the watermark by a tick only for the next batch. The plan already contains the tick, so
    state that this watermark passes need not wait for the next batch.

    Attributes:
        checkpoint_uri: The checkpoint with the plan.
        delay_ms: How far the watermark is behind a tick.
    """

    checkpoint_uri: str
    delay_ms: int

    def __call__(self) -> int:
        """Milliseconds since 1970 UTC; 0 if the batch has no tick."""
        plan = running_batch(self.checkpoint_uri).plan
        return plan.tick_ms - self.delay_ms if plan.ticks and plan.tick_ms is not None else 0


def running_batch(checkpoint_uri: str) -> PlannedBatch:
    """The plan of the batch to which the current task belongs.

    Raises:
        RuntimeError: The checkpoint does not contain it.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    batch_id = None if context is None else context.getLocalProperty(BATCH_ID_PROPERTY)
    planned = None if batch_id is None else Checkpoint(checkpoint_uri).planned(int(batch_id))
    if planned is None:
        raise RuntimeError(
            f"batch {batch_id} runs but is not planned in {checkpoint_uri}: is the checkpoint shared?"
        )
    return planned
