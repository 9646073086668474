"""Kafka's records in, a few packed rows out: parsed, judged, and put into buckets before the shuffle.

Packing first means that Spark moves and decodes a row per bucket and task, and not one per record.
"""

from __future__ import annotations

import marshal
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

import orjson
import pyarrow as pa

from spark_jobs.runtime.checkpoint import Checkpoint
from spark_jobs.runtime.lanes import (
    LANE_DATA_TICK,
    LANE_DEAD,
    LANE_EVENT,
    LANE_TICK,
    PACKED_DDL,
    bucket_of,
)
from spark_jobs.runtime.parse import Parser, Rejection
from spark_jobs.runtime.rows import encode_rows
from spark_jobs.runtime.tables import DEAD_LETTERS
from spark_jobs.runtime.validation import TICK_KEY, Bounds, Field

if TYPE_CHECKING:
    from confluent_kafka import Message

_BATCH_ID = "streaming.sql.batchId"  # MicroBatchExecution.BATCH_ID_KEY
_SCHEMA = pa.schema(
    [
        ("lane", pa.string()),
        ("bucket", pa.int32()),
        ("partition", pa.int32()),
        ("newest_ms", pa.int64()),
        ("tick_ts", pa.timestamp("us", tz="UTC")),
        ("records", pa.int64()),
        ("payload", pa.binary()),
    ]
)
_TICK_KEY = TICK_KEY.encode()


@dataclass(frozen=True)
class Packer:
    """What becomes of a record.

    Attributes:
        key: Name of the field by which the stream is keyed.
        fields: All declared fields.
        bounds: Limits of a record and of its time.
        event: From a parsed record and its time to the event's plain tuple.
        buckets: Number of buckets.
        topic: The data topic.
        checkpoint_uri: Says at which watermark the batch runs.
    """

    ddl: ClassVar[str] = PACKED_DDL

    key: str
    fields: tuple[Field, ...]
    bounds: Bounds
    event: Callable[[Any, int], tuple[Any, ...]]
    buckets: int
    topic: str
    checkpoint_uri: str

    def load(self) -> Load:
        """Begin to pack one task's records."""
        return Load(self, _watermark_ms(self.checkpoint_uri))


class Load:
    """What one task has packed so far."""

    def __init__(self, packer: Packer, watermark_ms: int) -> None:
        self._packer = packer
        self._watermark_ms = watermark_ms
        self._parse = Parser(packer.fields, packer.bounds).parse
        self._events: dict[int, list[list[tuple[Any, ...]]]] = {}
        self._newest: dict[int, int] = {}
        self._dead: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        self._data_ticks: dict[int, int] = defaultdict(int)
        self._ticks: list[datetime] = []

    def take(self, messages: Iterable[Message]) -> None:
        """Parse and sort records of the data topic."""
        for message in messages:
            key = message.key()
            if key == _TICK_KEY:
                self._data_ticks[message.partition() or 0] += 1
            else:
                place = (message.partition() or 0, message.offset() or 0, message.timestamp()[1])
                self._record(place, key, message.value())

    def take_ticks(self, messages: Iterable[Message]) -> None:
        """Note records of the tick topic."""
        for message in messages:
            self._ticks.append(datetime.fromisoformat(orjson.loads(message.value() or b"{}")["tick"]))

    def _record(self, place: tuple[int, int, int], key: bytes | None, value: bytes | None) -> None:
        packer = self._packer
        parsed = self._parse(value, place[2])
        if isinstance(parsed, Rejection):
            self._dead[place[0]].append(
                (packer.topic, *place, key, value, parsed.reason.value, parsed.detail)
            )
            return
        record, event_ms = parsed
        partition = place[0]
        if event_ms > self._newest.get(partition, -(1 << 63)):
            self._newest[partition] = event_ms
        owner: str = getattr(record, packer.key)
        # Only an event before the watermark can turn out to be late, and then its raw record is put on file.
        raw = value if event_ms < self._watermark_ms else None
        buckets = self._events.get(partition)
        if buckets is None:
            buckets = self._events[partition] = [[] for _ in range(packer.buckets)]
        buckets[bucket_of(owner, packer.buckets)].append(
            (owner, *place, raw, *packer.event(record, event_ms))
        )

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The packed rows: one per bucket, lane and partition that has any."""
        rows: list[tuple[Any, ...]] = []
        for partition, buckets in self._events.items():
            newest_ms = self._newest[partition]
            for bucket, records in enumerate(buckets):
                if records:
                    payload = marshal.dumps(records)
                    rows.append((LANE_EVENT, bucket, partition, newest_ms, None, len(records), payload))
        for partition, letters in self._dead.items():
            payload = encode_rows(DEAD_LETTERS, letters)
            rows.append((LANE_DEAD, partition, partition, None, None, len(letters), payload))
        rows += [(LANE_DATA_TICK, p, p, None, None, count, None) for p, count in self._data_ticks.items()]
        rows += [(LANE_TICK, 0, 0, None, tick, 1, None) for tick in self._ticks]
        if rows:
            columns = zip(*rows, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _watermark_ms(checkpoint_uri: str) -> int:
    """The watermark at which the running batch was planned (ms); 0 before the first tick.

    Raises:
        RuntimeError: The batch is not in the checkpoint.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    batch_id = None if context is None else context.getLocalProperty(_BATCH_ID)
    if batch_id is None:
        return 0
    planned = Checkpoint(checkpoint_uri).planned(int(batch_id))
    if planned is None:
        raise RuntimeError(
            f"batch {batch_id} runs but is not planned in {checkpoint_uri}: is the checkpoint shared?"
        )
    return planned.watermark_ms
