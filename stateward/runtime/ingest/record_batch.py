"""The common part of all decoders: ticks, dead letters and the batch's watermark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stateward.runtime.api.record_fields import TICK_KEY, Bounds, Field
from stateward.runtime.checkpoint.checkpoint import Checkpoint, PlannedBatch
from stateward.runtime.ingest.parse import Rejection, Verdict, place_id
from stateward.runtime.ingest.shaped_records import parser_of
from stateward.runtime.session import BATCH_ID_PROPERTY
from stateward.runtime.watermark.partition_times import TimeTracker
from stateward.runtime.watermark.topic_partitions import Topics

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Message

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
        self._parser = parser_of(fields, bounds)
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
        if _TICK_KEY in [message.key() for message in messages]:
            messages = self._without_ticks(messages)
        values = [message.value() for message in messages]
        verdicts = self._parser.parse_all(values, self._now_ms)
        # Asked once: the records of most streams have ids, and pay nothing for those of others.
        if self._parser.names_places:
            verdicts = self._placed(messages, verdicts)
        self._take(zip(messages, values, verdicts, strict=True))

    def _without_ticks(self, messages: Sequence[Message]) -> list[Message]:
        """The records that are no ticks; the ticks are counted."""
        kept = []
        for message in messages:
            if message.key() == _TICK_KEY:
                partition = self._first_slot + (message.partition() or 0)
                self._data_ticks[partition] += 1
                self._watch.end_of_replay(partition, message.offset() or 0, message.value())
            else:
                kept.append(message)
        return kept

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
    def _take(self, judged: Iterable[tuple[Message, bytes | None, Verdict]]) -> None:
        """Classify records with their values and verdicts."""

    def _placed(self, messages: Sequence[Message], verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
        """The verdicts on records without ids, with the place of each as its id."""
        for message, verdict in zip(messages, verdicts, strict=True):
            if verdict[2] is None:
                topic, partition, offset, _ = self._where(message)
                verdict[0].event_id = place_id(topic, partition, offset)
            yield verdict

    def _where(self, message: Message) -> tuple[str, int, int, int]:
        """Topic, partition, offset and timestamp, as tables have them."""
        return self._topic, message.partition() or 0, message.offset() or 0, message.timestamp()[1]

    def _reject(self, message: Message, why: Rejection) -> None:
        where = self._where(message)
        letter = (*where, message.key(), message.value(), why.reason.value, why.detail)
        self._dead[self._first_slot + where[1]].append(letter)


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
