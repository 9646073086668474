"""Decodes Kafka records into a few packed rows, grouped into buckets before the shuffle.

With packed rows Spark moves and decodes one row per bucket and task instead of one per record.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from stateward.runtime.api.key_filter import KeyFilter, takes
from stateward.runtime.api.record_fields import Bounds, Field
from stateward.runtime.api.tables import DEAD_LETTERS
from stateward.runtime.checkpoint.checkpoint import PlannedBatch
from stateward.runtime.delta.lookup_tables import LookupTable, TableVersion, configured_tables, opened
from stateward.runtime.ingest.packed_format import (
    LANE_DATA_TICK,
    LANE_DEAD,
    LANE_EVENT,
    LANE_OTHER,
    LANE_TICK,
    LANE_TIMES,
    PACKED_DDL,
    bucket_of,
)
from stateward.runtime.ingest.parse import Verdict
from stateward.runtime.ingest.record_batch import RecordTask, running_batch
from stateward.runtime.sink.output_rows import PIECE_BYTES, encode_pieces
from stateward.runtime.watermark.partition_times import NEVER
from stateward.runtime.watermark.topic_partitions import Topics

if TYPE_CHECKING:
    from confluent_kafka import Message

    from stateward.runtime.api.config import Config
    from stateward.runtime.api.stream_job import StreamJob

_SCHEMA = pa.schema(
    [
        ("lane", pa.string()),
        ("bucket", pa.int32()),
        ("tick_ts", pa.timestamp("us", tz="UTC")),
        ("records", pa.int64()),
        ("payload", pa.binary()),
    ]
)


@dataclass(frozen=True)
class RecordDecoder:
    """Creates the decoding tasks of a keyed stream.

    Attributes:
        owner: Returns the key of a parsed record.
        fields: All declared fields.
        bounds: Limits of a record and of its time.
        event: Converts a parsed record and its time to the event's plain tuple.
        buckets: Number of buckets.
        topics: The data topics.
        checkpoint_uri: The checkpoint, which contains the batch's time and watermark.
        on_arrival: Whether the time of an event is that of its batch's plan (``clock: processing``).
        only: Filters that select the stream's keys.
        lookups: The tables of which ``event`` gets the rows, at the versions of the batch's plan.
    """

    ddl: ClassVar[str] = PACKED_DDL

    owner: Callable[[Any], str]
    fields: tuple[Field, ...]
    bounds: Bounds
    event: Callable[..., tuple[Any, ...]]
    buckets: int
    topics: Topics
    checkpoint_uri: str
    on_arrival: bool = False
    only: tuple[KeyFilter, ...] = ()
    lookups: tuple[LookupTable, ...] = ()

    @classmethod
    def of(cls, config: Config, job: StreamJob) -> RecordDecoder:
        """The decoder of a stream.

        Raises:
            LookupInvalidError: The configuration has other lookups than the declaration.
        """
        return cls(
            owner=job.owner,
            fields=job.fields(config),
            bounds=config.bounds,
            event=job.event,
            buckets=config.state_buckets,
            topics=Topics(config.topics),
            checkpoint_uri=config.checkpoint_uri,
            on_arrival=config.in_processing_time,
            only=job.only,
            lookups=configured_tables(config.stream, job.lookups, config.lookups),
        )

    def load(self) -> DecoderTask:
        """Create the decoder of one task.

        Raises:
            RuntimeError: The checkpoint does not contain the batch.
            LookupGoneError: A version of the plan can no longer be read.
        """
        return DecoderTask(self, running_batch(self.checkpoint_uri))


class DecoderTask(RecordTask):
    """The records that one task has packed so far.

    Args:
        decoder: The stream's decoder.
        batch: The plan of the batch.
    """

    def __init__(self, decoder: RecordDecoder, batch: PlannedBatch) -> None:
        super().__init__(decoder.topics, decoder.fields, decoder.bounds, batch.now_ms)
        self._decoder = decoder
        self._watermark_ms = batch.watermark_ms
        # A clock that was set back must not make events late.
        self._arrival_ms = max(batch.now_ms, batch.watermark_ms) if decoder.on_arrival else None
        self._events: list[list[tuple[Any, ...]]] = [[] for _ in range(decoder.buckets)]
        self._event = enriched(decoder.event, decoder.lookups, batch.plan.lookups)

    def _take(self, judged: Iterable[tuple[Message, bytes | None, Verdict]]) -> None:
        decoder, newest, event_of, events = self._decoder, self._newest, self._event, self._events
        owner_of, only, buckets = decoder.owner, decoder.only, decoder.buckets
        first_slot, arrival_ms, watermark_ms = self._first_slot, self._arrival_ms, self._watermark_ms
        for message, value, (record, said_ms, why) in judged:
            if why is not None:
                self._reject(message, why)
                continue
            partition = first_slot + (message.partition() or 0)
            record_ms = message.timestamp()[1]
            event_ms = said_ms if arrival_ms is None else arrival_ms
            if arrival_ms is None and event_ms > newest.get(partition, NEVER):
                self._watch.event(partition, event_ms, record_ms)
            owner = owner_of(record)
            if only and not takes(only, owner):
                # Its event time still counts, so that the watermark does not depend on the selected keys.
                self._others[partition] += 1
                continue
            # Only an event before the watermark can be late, and a late event is stored with its raw value.
            raw = value if event_ms < watermark_ms else None
            events[bucket_of(owner, buckets)].append(
                (owner, partition, message.offset() or 0, record_ms, raw, *event_of(record, event_ms))
            )

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The packed rows: one per lane and bucket, or partition; several if they are large."""
        rows: list[tuple[Any, ...]] = []
        waiting = 0
        for row in self._rows():
            rows.append(row)
            waiting += len(row[-1] or b"")
            if waiting >= PIECE_BYTES:
                yield _record_batch(rows)
                rows, waiting = [], 0
        if rows:
            yield _record_batch(rows)

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        for bucket, records in enumerate(self._events):
            for count, payload in _payloads(records):
                yield LANE_EVENT, bucket, None, count, payload
        for partition, count in self._others.items():
            yield LANE_OTHER, partition, None, count, None
        for partition, letters in self._dead.items():
            for count, payload in encode_pieces(DEAD_LETTERS, letters):
                yield LANE_DEAD, partition, None, count, payload
        for partition, count in self._data_ticks.items():
            yield LANE_DATA_TICK, partition, None, count, None
        for tick in self._ticks:
            yield LANE_TICK, 0, tick, 1, None
        times = self._watch.times()
        if times.records:
            yield LANE_TIMES, 0, None, times.records, json.dumps(times.to_json()).encode()


def enriched(
    event: Callable[..., tuple[Any, ...]],
    lookups: tuple[LookupTable, ...],
    versions: Mapping[str, TableVersion],
) -> Callable[[Any, int], tuple[Any, ...]]:
    """A stream's function of a record and its time, with the rows of its lookups, if it has any."""
    if not lookups:
        return event
    rows = opened(lookups, versions)
    return lambda record, event_ms: event(record, event_ms, rows)


def _payloads(records: list[tuple[Any, ...]]) -> Iterator[tuple[int, bytes]]:
    """Pack the records of a bucket in pieces of at most `PIECE_BYTES` or one record.

    Yields:
        The number of records in a piece, and the piece.
    """
    if not records:
        return
    payload = marshal.dumps(records)
    if len(payload) <= PIECE_BYTES or len(records) == 1:
        yield len(records), payload
        return
    half = len(records) // 2
    yield from _payloads(records[:half])
    yield from _payloads(records[half:])


def _record_batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
