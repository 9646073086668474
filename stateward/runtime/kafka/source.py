"""Kafka as a Spark data source: plans offsets on the driver, reads and decodes records in the workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from stateward.contract.privacy.forgotten import Register, Spans
from stateward.runtime.checkpoint.attempts import records_of_next
from stateward.runtime.checkpoint.batch_plan import Plan, from_json, plan_from_json
from stateward.runtime.checkpoint.offsets import Range, ranges, tasks
from stateward.runtime.kafka import reader
from stateward.runtime.kafka.batch_size import BatchSize
from stateward.runtime.kafka.planner import Planner, Scan
from stateward.runtime.kafka.rate import cluster_at
from stateward.runtime.kafka.scan_barrier import ScanBarrier

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Message
    from pyspark.sql.types import StructType

# Tasks of a full batch: enough that no core waits long for the last one.
_TASKS_PER_FULL_BATCH = 6
_FEWEST_RECORDS_PER_TASK = 5_000


class DecodingTask(Protocol):
    """Decodes the records of one task."""

    def begin(self, topic: str, partitions: Sequence[int]) -> None:
        """Announce records of these partitions of a topic."""

    def take(self, messages: Sequence[Message]) -> None:
        """Decode records of a data topic."""

    def leave_out(self, messages: Sequence[Message]) -> None:
        """Count records of forgotten keys, which are not decoded."""

    def tick(self, tick_ms: int) -> None:
        """Add the batch's tick."""

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The resulting rows."""


class Decoder(Protocol):
    """Creates the decoding tasks of a stream; pickled for the workers."""

    @property
    def ddl(self) -> str:
        """The columns of the resulting rows."""

    def load(self) -> DecodingTask:
        """Create the decoder of one task."""


class KafkaSource(DataSource):
    """The data source; a subclass created by `source_for` sets what to read."""

    scan: Scan
    decoder: Decoder

    def schema(self) -> str:
        """The columns that the decoder emits."""
        return self.decoder.ddl

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Create the reader of a query."""
        return KafkaReader(self.scan, self.decoder)


def source_for(scan: Scan, decoder: Decoder) -> type[KafkaSource]:
    """Create the data source of a stream, to be registered with a session."""

    class Bound(KafkaSource):
        @classmethod
        def name(cls) -> str:
            of = () if scan.reads is None else ("of", scan.reads)
            return "-".join(("stateward", *scan.topics, *of))

    Bound.scan, Bound.decoder = scan, decoder
    return Bound


@dataclass
class _TaskInput(InputPartition):
    """The input of one task.

    Attributes:
        ranges: Offset ranges of the data topics.
        tick_ms: The batch's tick in one task of the batch; None in the others.
        forgotten: Records of forgotten keys among them, by topic and partition.
    """

    ranges: list[Range]
    tick_ms: int | None = None
    forgotten: dict[tuple[str, int], Spans] = field(default_factory=dict)


class KafkaReader(DataSourceStreamReader):
    """Plans batches and reads them.

    Args:
        scan: What to read.
        decoder: Decodes the records.
    """

    def __init__(self, scan: Scan, decoder: Decoder) -> None:
        self._scan = scan
        self._decoder = decoder
        file = None if scan.time is None else scan.time.barrier_file
        self._barrier = None if file is None else ScanBarrier(file)
        self._planner = Planner(scan, cluster_at(scan.bootstrap))
        self._register = Register(scan.forgotten_uri)
        self._is_unlimited = False
        self._size = BatchSize(scan.target_batch_s)

    def initialOffset(self) -> dict[str, Any]:
        """The start offsets of a new checkpoint."""
        return self._planner.first().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The maximum number of records in a batch."""
        return ReadMaxRows(self._scan.most_records)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The plan of the next batch.

        Raises:
            BrokerAwayError: Kafka does not answer.
            DataLossError: The topic was deleted and created again.
        """
        limit = self._limited_now(limit)
        most = self._size.limited(limit.max_rows) if isinstance(limit, ReadMaxRows) else None
        assert most is not None or isinstance(limit, ReadAllAvailable)
        plan = partial(self._planner.next, start, most)
        end = plan() if self._barrier is None else self._barrier.end(plan)
        if end != start:
            self._size.planned(sum(one.size for one in self._ranges(start, plan_from_json(end))))
        return end

    def _limited_now(self, limit: ReadLimit) -> ReadLimit:
        """The limit, reduced after a batch that was too large for its driver."""
        if not isinstance(limit, ReadMaxRows) or self._is_unlimited:
            return limit
        now = records_of_next(self._scan.checkpoint_uri, limit.max_rows)
        # Only a plan that was taken back before this start reduces the limit.
        self._is_unlimited = now == limit.max_rows
        return ReadMaxRows(now)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[_TaskInput]:
        """The tasks of a batch."""
        plan = plan_from_json(end)
        wanted = self._ranges(start, plan)
        tick_ms = plan.tick_ms
        if self._scan.reads is not None:
            wanted = [one for one in wanted if one.topic == self._scan.reads]
            tick_ms = plan.topic_ticks[self._scan.reads].tick_ms if plan.ticks else None
        shares = tasks(wanted, fewest=_FEWEST_RECORDS_PER_TASK, most_tasks=_TASKS_PER_FULL_BATCH)
        forgotten = {
            (topic, partition): spans
            for topic in self._scan.topics.keys() & plan.offsets.keys()
            for partition, spans in self._register.offsets(topic, plan.ids.get(topic)).items()
        }
        found = [_TaskInput(share, forgotten=_among(share, forgotten)) for share in shares]
        if plan.ticks and tick_ms is not None:
            found = found or [_TaskInput([])]
            found[0].tick_ms = tick_ms
        return found

    def _ranges(self, start: dict[str, Any], plan: Plan) -> list[Range]:
        """The records of the data topics in a batch."""
        until = {topic: parts for topic, parts in plan.offsets.items() if topic in self._scan.topics}
        counts = {topic: len(parts) for topic, parts in until.items()}
        return ranges(self._planner.known(from_json(start), counts), until)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read and decode the records of one task, in a worker."""
        assert isinstance(partition, _TaskInput)
        load = self._decoder.load()
        if partition.tick_ms is not None:
            load.tick(partition.tick_ms)
        for topic in sorted({one.topic for one in partition.ranges}):
            share = [one for one in partition.ranges if one.topic == topic]
            load.begin(topic, [one.partition for one in share])
            for messages in reader.read(self._scan.bootstrap, share):
                kept, left_out = _divided(messages, partition.forgotten)
                load.take(kept)
                if left_out:
                    load.leave_out(left_out)
        yield from load.rows()


def _among(
    share: Sequence[Range], forgotten: Mapping[tuple[str, int], Spans]
) -> dict[tuple[str, int], Spans]:
    """The records of forgotten keys in some ranges; empty in nearly every batch."""
    found: dict[tuple[str, int], Spans] = {}
    for one in share:
        spans = forgotten.get((one.topic, one.partition), Spans()).within(one.begin, one.end)
        if spans:
            found[one.topic, one.partition] = spans
    return found


def _divided(
    messages: list[Message], forgotten: Mapping[tuple[str, int], Spans]
) -> tuple[list[Message], list[Message]]:
    """Divide records into those that are decoded and those that are left out."""
    if not forgotten:
        return messages, []
    kept: list[Message] = []
    left_out: list[Message] = []
    for message in messages:
        spans = forgotten.get((message.topic() or "", message.partition() or 0))
        is_left_out = spans is not None and spans.holds(message.offset() or 0)
        (left_out if is_left_out else kept).append(message)
    return kept, left_out
