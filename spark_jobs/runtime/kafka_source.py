"""The scan of a stream as a source for Spark: plans offsets on the driver, reads and sorts in the workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from spark_jobs.runtime import kafka_reader
from spark_jobs.runtime.attempts import records_of_next
from spark_jobs.runtime.broker import Broker
from spark_jobs.runtime.checkpoint import Checkpoint, from_json, offset_json
from spark_jobs.runtime.intake import Sorter
from spark_jobs.runtime.offsets import Offsets, Range, limited, ranges, tasks
from spark_jobs.runtime.rounds import Rounds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

# A full batch is read in so many tasks, so that no core waits long for the last of them.
_TASKS_PER_FULL_BATCH = 6
_FEWEST_RECORDS_PER_TASK = 5_000


@dataclass(frozen=True)
class Scan:
    """What a stream reads.

    Attributes:
        bootstrap: Address of the cluster.
        topics: The data topics, and how many partitions each has.
        tick_topic: The stream's own tick topic, of one partition; None for a stream without one.
        from_latest: Whether a new checkpoint begins at the topics' ends, and not at their begins.
        most_records: Records of the data topics in a batch.
        checkpoint_uri: Remembers where the first batch began.
        rounds: A file by which several scans of one query agree (`rounds`); None when there is one scan.
    """

    bootstrap: str
    topics: Mapping[str, int]
    tick_topic: str | None
    from_latest: bool
    most_records: int
    checkpoint_uri: str
    rounds: str | None = None


class SortedKafka(DataSource):
    """The source; a subclass made by `source_of` knows what to read."""

    scan: Scan
    sorter: Sorter

    def schema(self) -> str:
        """What the sorter makes of the records."""
        return self.sorter.ddl

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """One query's reader."""
        return KafkaReader(self.scan, self.sorter)


def source_of(scan: Scan, sorter: Sorter) -> type[SortedKafka]:
    """The source of one stream, to be registered with a session."""

    class Bound(SortedKafka):
        @classmethod
        def name(cls) -> str:
            return "-".join(("stateward", *scan.topics))

    Bound.scan, Bound.sorter = scan, sorter
    return Bound


@dataclass
class _Share(InputPartition):
    """What one task reads."""

    ranges: list[Range]


class KafkaReader(DataSourceStreamReader):
    """Plans batches and reads them.

    Args:
        scan: What to read.
        sorter: What to make of it.
    """

    def __init__(self, scan: Scan, sorter: Sorter) -> None:
        self._scan = scan
        self._sorter = sorter
        self._rounds = None if scan.rounds is None else Rounds(scan.rounds)
        self._broker: Broker | None = None
        self._is_unlimited = False

    def initialOffset(self) -> dict[str, Any]:
        """Where a new checkpoint begins; decided once and kept in it."""
        checkpoint = Checkpoint(self._scan.checkpoint_uri)
        offsets = checkpoint.initial_offsets()
        if not offsets:
            # Old ticks say nothing about a new checkpoint: they would make its whole backlog late.
            scan, offsets = self._scan, self._ends()
            if not scan.from_latest:
                for topic, partitions in scan.topics.items():
                    offsets[topic] = self._kafka().begin_offsets(topic, partitions)
            checkpoint.write_initial_offsets(offsets)
        return offset_json(offsets)

    def getDefaultReadLimit(self) -> ReadLimit:
        """The records of a batch."""
        return ReadMaxRows(self._scan.most_records)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends.

        Raises:
            BrokerAwayError: Kafka does not answer.
            DataLossError: The topic was made anew.
        """
        limit = self._limited_now(limit)
        if self._rounds is None:
            return self._next_end(start, limit)
        return self._rounds.end(lambda: self._next_end(start, limit))

    def _limited_now(self, limit: ReadLimit) -> ReadLimit:
        """The limit, or less after a batch that was too large for its driver."""
        if not isinstance(limit, ReadMaxRows) or self._is_unlimited:
            return limit
        now = records_of_next(self._scan.checkpoint_uri, limit.max_rows)
        # Within a start only a batch that was taken back before it makes batches small.
        self._is_unlimited = now == limit.max_rows
        return ReadMaxRows(now)

    def _next_end(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin = from_json(start)
        ends = self._ends()
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if most is None:
            assert isinstance(limit, ReadAllAvailable)
            most = sum(sum(ends[topic].values()) for topic in self._scan.topics)
        return offset_json(limited(self._known(begin), ends, tuple(self._scan.topics), most))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[_Share]:
        """The tasks of a batch."""
        until = from_json(end)
        wanted = ranges(self._known(from_json(start)), until)
        shares = tasks(wanted, fewest=_FEWEST_RECORDS_PER_TASK, most_tasks=_TASKS_PER_FULL_BATCH)
        return [_Share(share) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read and sort one task's records, in a worker."""
        assert isinstance(partition, _Share)
        load = self._sorter.load()
        for topic in sorted({one.topic for one in partition.ranges}):
            take = load.take_ticks if topic == self._scan.tick_topic else load.take
            share = [one for one in partition.ranges if one.topic == topic]
            for messages in kafka_reader.read(self._scan.bootstrap, share):
                take(messages)
        yield from load.rows()

    def _ends(self) -> Offsets:
        scan, broker = self._scan, self._kafka()
        ends = {topic: broker.end_offsets(topic, partitions) for topic, partitions in scan.topics.items()}
        if scan.tick_topic is not None:
            ends[scan.tick_topic] = broker.end_offsets(scan.tick_topic, 1)
        return ends

    def _known(self, offsets: Offsets) -> Offsets:
        """With topics and partitions that were added since, which are read from their begin."""
        known = {**self._added(offsets), **offsets}
        full = {
            topic: {**dict.fromkeys(range(partitions), 0), **known[topic]}
            for topic, partitions in self._scan.topics.items()
        }
        return {**offsets, **full}

    def _added(self, offsets: Offsets) -> Offsets:
        """Where topics begin that were added to the stream; decided once, as of the others."""
        missing = {topic: count for topic, count in self._scan.topics.items() if topic not in offsets}
        if not missing:
            return {}
        checkpoint = Checkpoint(self._scan.checkpoint_uri)
        initial = checkpoint.initial_offsets()
        new = {
            topic: self._kafka().begin_offsets(topic, count)
            for topic, count in missing.items()
            if topic not in initial
        }
        if new:
            checkpoint.write_initial_offsets({**initial, **new})
        return {topic: {**initial, **new}[topic] for topic in missing}

    def _kafka(self) -> Broker:
        if self._broker is None:
            self._broker = Broker(self._scan.bootstrap)
        return self._broker
