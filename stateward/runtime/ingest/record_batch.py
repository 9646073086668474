"""What every way to take in records has in common: ticks, dead letters, and the batch's watermark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from stateward.runtime.api.record_fields import TICK_KEY, Bounds, Field
from stateward.runtime.checkpoint.checkpoint import Checkpoint, PlannedBatch
from stateward.runtime.ingest.parse import Parser, Rejection
from stateward.runtime.watermark.partition_times import Watch

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Message

Place = tuple[int, int, int]
"""Partition, offset and Kafka's timestamp (ms) of a record."""

_BATCH_ID = "streaming.sql.batchId"  # MicroBatchExecution.BATCH_ID_KEY
_TICK_KEY = TICK_KEY.encode()


class DecodingTask(Protocol):
    """What one task makes of its records."""

    def begin(self, partitions: Sequence[int]) -> None:
        """Records of these partitions of one topic come next."""

    def take(self, messages: Sequence[Message]) -> None:
        """Take in records of a data topic."""

    def tick(self, tick_ms: int) -> None:
        """Take in the batch's tick."""

    def rows(self) -> Iterator[pa.RecordBatch]:
        """What became of them."""


class Decoder(Protocol):
    """What becomes of the records of a stream; is sent to the workers."""

    @property
    def ddl(self) -> str:
        """The rows that come out."""

    def load(self) -> DecodingTask:
        """Begin with one task's records."""


class Load(ABC):
    """What one task has taken in so far.

    Args:
        topic: The data topic.
        fields: All declared fields.
        bounds: Limits of a record and of its time.
        now_ms: The time by which they are judged.
    """

    def __init__(self, topic: str, fields: tuple[Field, ...], bounds: Bounds, now_ms: int) -> None:
        self._topic = topic
        self._parse = Parser(fields, bounds).parse
        self._now_ms = now_ms
        self._watch = Watch(now_ms, bounds.not_before_ms)
        self._newest = self._watch.newest
        self._dead: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        self._data_ticks: dict[int, int] = defaultdict(int)
        self._ticks: list[datetime] = []

    def begin(self, partitions: Sequence[int]) -> None:
        """Note which partitions are read."""
        self._watch.read(partitions)

    def take(self, messages: Sequence[Message]) -> None:
        """Parse and sort records of the data topic."""
        self._watch.records(messages)
        for message in messages:
            key = message.key()
            partition = message.partition() or 0
            offset = message.offset() or 0
            if key == _TICK_KEY:
                self._data_ticks[partition] += 1
                self._watch.end_of_replay(partition, offset, message.value())
            else:
                self._record((partition, offset, message.timestamp()[1]), key, message.value())

    def tick(self, tick_ms: int) -> None:
        """Note the batch's tick."""
        self._ticks.append(datetime.fromtimestamp(tick_ms / 1000, UTC))

    @abstractmethod
    def rows(self) -> Iterator[pa.RecordBatch]:
        """All that came of the records."""

    @abstractmethod
    def _record(self, place: Place, key: bytes | None, value: bytes | None) -> None:
        """Take in one record."""

    def _reject(self, place: Place, key: bytes | None, value: bytes | None, why: Rejection) -> None:
        self._dead[place[0]].append((self._topic, *place, key, value, why.reason.value, why.detail))


@dataclass(frozen=True)
class NextWatermark:
    """Tells a task what its batch makes the watermark.

    Spark lets a tick move the watermark for the next batch. The plan has the tick before the batch runs, so
    what it is going to pass needs not be kept for another batch.

    Attributes:
        checkpoint_uri: Where the plan is.
        delay_ms: How far the watermark stays behind a tick.
    """

    checkpoint_uri: str
    delay_ms: int

    def __call__(self) -> int:
        """Milliseconds since 1970 UTC; 0 if the batch has no tick."""
        plan = running_batch(self.checkpoint_uri).plan
        return plan.tick_ms - self.delay_ms if plan.ticks and plan.tick_ms is not None else 0


def running_batch(checkpoint_uri: str) -> PlannedBatch:
    """The batch that the task belongs to, as it was planned.

    Raises:
        RuntimeError: It is not in the checkpoint.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    batch_id = None if context is None else context.getLocalProperty(_BATCH_ID)
    planned = None if batch_id is None else Checkpoint(checkpoint_uri).planned(int(batch_id))
    if planned is None:
        raise RuntimeError(
            f"batch {batch_id} runs but is not planned in {checkpoint_uri}: is the checkpoint shared?"
        )
    return planned
