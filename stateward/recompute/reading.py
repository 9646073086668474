"""Raw records to a stream's events: parsed and judged as by the stream, and put into buckets of keys."""

from __future__ import annotations

import json
import marshal
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stateward.contract.privacy.forgotten import Register, Spans
from stateward.runtime.api.key_filter import KeyFilter, takes
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.api.record_fields import TICK_KEY, Bounds, Field
from stateward.runtime.ingest.packed_format import bucket_of
from stateward.runtime.ingest.parse import Rejection, place_id
from stateward.runtime.ingest.shaped_records import parser_of
from stateward.runtime.watermark.topic_partitions import Topics

if TYPE_CHECKING:
    from stateward.recompute.key_recompute import KeyFold
    from stateward.recompute.lookups import LookedUp
    from stateward.recompute.request import Recomputable, Request
    from stateward.runtime.api.config import Config

PACKED_DDL = "bucket int, payload binary"
COUNTS_BUCKET = -1
"""A bucket without keys, whose payloads are JSON counts."""

_SCHEMA = pa.schema([("bucket", pa.int32()), ("payload", pa.binary())])
_TICK_KEY = TICK_KEY.encode()


@dataclass(frozen=True)
class Reading:
    """Parses records and packs their events by bucket, as the stream does.

    Attributes:
        owner: From a parsed record to its key.
        fields: Its declared fields, by topic in the order of the configuration.
        bounds: Limits of a record and of its time.
        event: From a parsed record and its time to the event's plain tuple.
        buckets: Number of buckets.
        since_ms: Earlier events are left out; None for none.
        until_ms: Later events are left out.
        only: Filters of the stream's keys.
        read_to: By slot of the partition (`topic_partitions`) the offset up to which the stream has read;
            events of records beyond it that are before ``watermark_ms`` will be late, and are left out. Empty
            for none.
        watermark_ms: The stream's watermark.
        forgotten: By slot the records of forgotten keys, which are left out.
        lookups: What ``event`` gets in addition; None for a stream without lookups.
        inputs: What a stream calls its topics, in their order; empty for one without names for them.
    """

    owner: Callable[[Any], str]
    fields: Mapping[str, tuple[Field, ...]]
    bounds: Bounds
    event: Callable[..., tuple[Any, ...]]
    buckets: int
    since_ms: int | None
    until_ms: int
    only: tuple[KeyFilter, ...] = ()
    read_to: Mapping[int, int] = field(default_factory=dict)
    watermark_ms: int = 0
    forgotten: Mapping[int, Spans] = field(default_factory=dict)
    lookups: LookedUp | None = None
    inputs: tuple[str, ...] = ()

    @cached_property
    def topics(self) -> Topics:
        """The stream's topics."""
        return Topics(tuple(self.fields))

    def batches(self, records: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack batches of records, `PACKED_DDL`."""
        parsers = [parser_of(self.fields[topic], self.bounds) for topic in self.topics.names]
        for batch in records:
            packed: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
            counts = {"records": batch.num_rows, "ticks": 0, "dead": 0, "outside": 0, "others": 0, "late": 0}
            columns = (batch.column(name).to_pylist() for name in batch.schema.names)
            for slot, offset, key, value in zip(*columns, strict=True):
                if key == _TICK_KEY:
                    counts["ticks"] += 1
                    continue
                if (spans := self.forgotten.get(slot)) is not None and spans.holds(offset):
                    counts["others"] += 1
                    continue
                # The records have none that were too far ahead when the stream read them.
                parser = parsers[self.topics.number(slot)]
                parsed = parser.parse(value, None)
                if isinstance(parsed, Rejection):
                    counts["dead"] += 1
                    continue
                if parser.names_places:
                    parsed.record.event_id = place_id(*self.topics.place(slot), offset)
                if not self._matters(parsed.event_ms):
                    counts["outside"] += 1
                elif self._will_be_late(slot, offset, parsed.event_ms):
                    counts["late"] += 1
                elif not takes(self.only, owner := self.owner(parsed.record)):
                    counts["others"] += 1
                else:
                    event = self.event(parsed.record, parsed.event_ms, *self._more(slot, offset))
                    packed[bucket_of(owner, self.buckets)].append((owner, slot, offset, *event))
            packed_rows = [(bucket, marshal.dumps(events)) for bucket, events in packed.items()]
            packed_rows.append((COUNTS_BUCKET, json.dumps(counts).encode()))
            arrays = [
                pa.array(column, field.type)
                for column, field in zip(zip(*packed_rows, strict=True), _SCHEMA, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)

    def _more(self, slot: int, offset: int) -> tuple[Any, ...]:
        """What `event` gets beside the record and its time."""
        if self.lookups is not None:
            return self.lookups.at(*self.topics.place(slot), offset)
        return (self.inputs[self.topics.number(slot)],) if self.inputs else ()

    def _matters(self, event_ms: int) -> bool:
        return (self.since_ms is None or event_ms >= self.since_ms) and event_ms <= self.until_ms

    def _will_be_late(self, slot: int, offset: int, event_ms: int) -> bool:
        return event_ms < self.watermark_ms and offset >= self.read_to.get(slot, offset + 1)


def reading(
    request: Request, job: Recomputable, fold: KeyFold, *, buckets: int, since_ms: int | None, until_ms: int
) -> Reading:
    """Return how the stream reads its records."""
    config = request.config
    return Reading(
        job.owner,
        job.fields_of(config),
        config.bounds,
        fold.plain,
        buckets,
        since_ms,
        until_ms,
        job.only,
        forgotten=forgotten_records(config),
        inputs=tuple(one.name for one in job.inputs) if isinstance(job, NativeJob) else (),
    )


def forgotten_records(config: Config) -> dict[int, Spans]:
    """Return the records of forgotten keys, by slot of the partition (`topic_partitions`)."""
    register = Register(config.forgotten_uri)
    return Topics(config.topics).by_slot({topic: register.offsets(topic) for topic in config.topics})


@dataclass(frozen=True)
class Moments:
    """A `Reading.event` that keeps only the time (ms) and the id of an event, as the stream has them."""

    fold: KeyFold

    def __call__(self, record: Any, event_ms: int, *more: Any) -> tuple[int, str]:
        """Return the time and the id of the event of a parsed record."""
        event = self.fold.event(self.fold.plain(record, event_ms, *more))
        return event.event_ms, event.event_id
