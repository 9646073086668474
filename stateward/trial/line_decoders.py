"""Decodes lines one by one with the decoder of a stream's tasks, as if each came in its own batch."""

from __future__ import annotations

import marshal
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.checkpoint.batch_plan import Plan
from stateward.runtime.checkpoint.checkpoint import PlannedBatch
from stateward.runtime.delta.lookup_tables import newest
from stateward.runtime.ingest.event_rows import AFTER_MS_US, EventRowDecoder, EventRowTask
from stateward.runtime.ingest.parse import Parsed
from stateward.runtime.ingest.record_decoder import DecoderTask, RecordDecoder
from stateward.runtime.ingest.shaped_records import parser_of
from stateward.runtime.watermark.topic_partitions import Topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Message

    from stateward.runtime.api.config import Config
    from stateward.runtime.api.stream_job import StreamJob

_BEFORE_ALL = PlannedBatch(0, {}, 0, 0)


class KeyedLines(DecoderTask):
    """The decoder of a keyed stream, with everything in one bucket.

    Args:
        job: The stream.
        config: Its configuration.
    """

    def __init__(self, job: StreamJob, config: Config) -> None:
        decoder = RecordDecoder.of(config, job)
        lookups = {one.lookup.name: newest(one) for one in decoder.lookups}
        batch = replace(_BEFORE_ALL, plan=Plan({}, lookups=lookups))
        super().__init__(replace(decoder, buckets=1), batch)
        self._clock = _Clock(job.fields(config), config) if decoder.on_arrival else None
        self.newest: Mapping[int, int] = self._newest
        """By slot the largest event time that the watermark may follow (ms)."""
        self.left_out = self._others
        """By slot how many events had a key of another stream."""

    def line(self, message: Message, now_ms: int, watermark_ms: int) -> tuple[Any, ...] | None:
        """Decode a record.

        Args:
            message: The record.
            now_ms: The time at which it is read.
            watermark_ms: The watermark before it.

        Returns:
            Key, slot, offset, timestamp, raw value if it is late, and the event's values; None if it is no
            event of the stream.
        """
        self._now_ms = self._watch.now_ms = now_ms
        self._watermark_ms = watermark_ms
        if self._clock is not None:
            # A file says when an event happened, and not when it arrived: it arrives when it happens.
            self._arrival_ms = max(self._clock.at(message, now_ms), watermark_ms)
        self.take((message,))
        (events,) = self._events
        # A worker gets an event in this form, which not every value has.
        return marshal.loads(marshal.dumps(events.pop())) if events else None

    @property
    def arrival_ms(self) -> int | None:
        """When the last record arrived, of a stream in processing time (ms); None of another."""
        return self._arrival_ms

    def dead(self) -> list[tuple[Any, ...]]:
        """The rows of `dead_letters`."""
        return [letter for letters in self._dead.values() for letter in letters]


class _Clock:
    """When the events of a stream in processing time happened."""

    def __init__(self, fields: Any, config: Config) -> None:
        self._parse = parser_of(fields, config.bounds).parse
        self._at_ms = 0

    def at(self, message: Message, now_ms: int) -> int:
        found = self._parse(message.value(), now_ms)
        if isinstance(found, Parsed):
            self._at_ms = max(self._at_ms, found.event_ms)
        return self._at_ms


class NativeEvent(NamedTuple):
    """A valid event of a stream on Spark's own operators, and its time (ms)."""

    record: Any
    event_ms: int


class NativeLines(EventRowTask):
    """The decoder of a topic of a stream on Spark's own operators.

    Args:
        job: The stream.
        config: Its configuration.
        topic: The topic.
    """

    def __init__(self, job: NativeJob, config: Config, topic: str) -> None:
        decoder = EventRowDecoder(
            key=job.key.name,
            fields=job.fields_of(config)[topic],
            bounds=config.bounds,
            topics=Topics(config.topics),
            checkpoint_uri=config.checkpoint_uri,
        )
        super().__init__(decoder, _BEFORE_ALL)
        # The oracle makes its events from the record, and Spark from its columns.
        self._values = lambda record: (record,)
        self.newest: Mapping[int, int] = self._newest
        """By slot the largest event time that the watermark may follow (ms)."""

    def line(self, message: Message, now_ms: int, watermark_ms: int) -> NativeEvent | None:
        """Decode a record: see `KeyedLines.line`; None if it is no event, or a late one."""
        self._now_ms = self._watch.now_ms = now_ms
        self._watermark_ms = watermark_ms
        self.take((message,))
        if not self._events:
            return None
        time_us, record = self._events.pop()
        return NativeEvent(record, (time_us - AFTER_MS_US) // 1000)

    def owner(self, record: Any) -> str:
        """The key of a record."""
        return str(self._owner(record))

    def dead(self) -> list[tuple[Any, ...]]:
        """The rows of `dead_letters`."""
        return [letter for letters in self._dead.values() for letter in letters]

    def late(self) -> list[tuple[Any, ...]]:
        """The rows of `late_events`."""
        return self._late
