"""The scan of a stream as a source for Spark: plans offsets on the driver, reads and sorts in the workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from stateward.runtime.checkpoint.attempts import records_of_next
from stateward.runtime.ingest.record_batch import Decoder
from stateward.runtime.kafka import reader
from stateward.runtime.kafka.batch_plan import from_json, plan_from_json
from stateward.runtime.kafka.broker import Broker
from stateward.runtime.kafka.offsets import Range, ranges, tasks
from stateward.runtime.kafka.planner import Planner, Scan
from stateward.runtime.kafka.scan_barrier import Rounds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

# A full batch is read in so many tasks, so that no core waits long for the last of them.
_TASKS_PER_FULL_BATCH = 6
_FEWEST_RECORDS_PER_TASK = 5_000


class SortedKafka(DataSource):
    """The source; a subclass made by `source_of` knows what to read."""

    scan: Scan
    sorter: Decoder

    def schema(self) -> str:
        """What the sorter makes of the records."""
        return self.sorter.ddl

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """One query's reader."""
        return KafkaReader(self.scan, self.sorter)


def source_of(scan: Scan, sorter: Decoder) -> type[SortedKafka]:
    """The source of one stream, to be registered with a session."""

    class Bound(SortedKafka):
        @classmethod
        def name(cls) -> str:
            return "-".join(("stateward", *scan.topics))

    Bound.scan, Bound.sorter = scan, sorter
    return Bound


@dataclass
class _Share(InputPartition):
    """What one task reads.

    Attributes:
        ranges: Of the data topics.
        tick_ms: The batch's tick, for one of its tasks; else None.
    """

    ranges: list[Range]
    tick_ms: int | None = None


class KafkaReader(DataSourceStreamReader):
    """Plans batches and reads them.

    Args:
        scan: What to read.
        sorter: What to make of it.
    """

    def __init__(self, scan: Scan, sorter: Decoder) -> None:
        self._scan = scan
        self._sorter = sorter
        rounds = None if scan.time is None else scan.time.rounds
        self._rounds = None if rounds is None else Rounds(rounds)
        self._planner = Planner(scan, Broker(scan.bootstrap))
        self._is_unlimited = False

    def initialOffset(self) -> dict[str, Any]:
        """Where a new checkpoint begins."""
        return self._planner.first().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The records of a batch."""
        return ReadMaxRows(self._scan.most_records)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The plan of the next batch.

        Raises:
            BrokerAwayError: Kafka does not answer.
            DataLossError: The topic was made anew.
        """
        limit = self._limited_now(limit)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        assert most is not None or isinstance(limit, ReadAllAvailable)
        if self._rounds is None:
            return self._planner.next(start, most)
        return self._rounds.end(lambda: self._planner.next(start, most))

    def _limited_now(self, limit: ReadLimit) -> ReadLimit:
        """The limit, or less after a batch that was too large for its driver."""
        if not isinstance(limit, ReadMaxRows) or self._is_unlimited:
            return limit
        now = records_of_next(self._scan.checkpoint_uri, limit.max_rows)
        # Within a start only a batch that was taken back before it makes batches small.
        self._is_unlimited = now == limit.max_rows
        return ReadMaxRows(now)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[_Share]:
        """The tasks of a batch."""
        plan = plan_from_json(end)
        until = {topic: parts for topic, parts in plan.offsets.items() if topic in self._scan.topics}
        counts = {topic: len(parts) for topic, parts in until.items()}
        wanted = ranges(self._planner.known(from_json(start), counts), until)
        shares = tasks(wanted, fewest=_FEWEST_RECORDS_PER_TASK, most_tasks=_TASKS_PER_FULL_BATCH)
        found = [_Share(share) for share in shares]
        if plan.ticks:
            found = found or [_Share([])]
            found[0].tick_ms = plan.tick_ms
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read and sort one task's records, in a worker."""
        assert isinstance(partition, _Share)
        load = self._sorter.load()
        if partition.tick_ms is not None:
            load.tick(partition.tick_ms)
        for topic in sorted({one.topic for one in partition.ranges}):
            share = [one for one in partition.ranges if one.topic == topic]
            load.begin([one.partition for one in share])
            for messages in reader.read(self._scan.bootstrap, share):
                load.take(messages)
        yield from load.rows()
