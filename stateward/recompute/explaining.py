"""Adds to each row that differs the events that explain it, by `evidence`."""

from __future__ import annotations

import marshal
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import functions as F

from stateward.recompute.evidence import Covered, KeyEvents, Moment
from stateward.recompute.raw import packed_events
from stateward.recompute.reading import COUNTS_BUCKET
from stateward.runtime.api.key_filter import KeyFilter
from stateward.runtime.watermark.topic_partitions import Topics

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from stateward.recompute.reading import Reading
    from stateward.runtime.api.tables import Table

EVENTS, IN_ALL = "events", "events_in_all"
_EVENT = "struct<event_id: string, topic: string, partition: int, offset: bigint, event_time: timestamp>"
_COLUMNS = {EVENTS: f"array<{_EVENT}>", IN_ALL: "bigint"}
EVENTS_DDL = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
"""The columns that are added."""

_BUCKET, _KEY, _FIRST, _LAST, _NAMED = "_bucket", "_key", "_first_ms", "_last_ms", "_named"
_HELPERS = (_BUCKET, _KEY, _FIRST, _LAST, _NAMED)
# Up to so many keys are filtered in each worker; with more, the events of all keys are shuffled.
_MOST_KEYS = 10_000

_EVENT_TYPE = pa.struct(
    [
        ("event_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("event_time", pa.timestamp("us", tz="UTC")),
    ]
)


@dataclass(frozen=True)
class Explaining:
    """Finds the events of rows.

    Attributes:
        records: The raw records that were read for the recomputation.
        how: How they were read; with `reading.Moments`.
        key: The field by which the stream is keyed.
        topics: Topics of the records.
    """

    records: DataFrame
    how: Reading
    key: str
    topics: Topics

    def explained(self, rows: DataFrame, table: Table, basis: str) -> DataFrame:
        """Return rows with the columns of `EVENTS_DDL` in place of ``basis``.

        The columns are null for a table without a column of the key's name.

        Args:
            rows: Any rows.
            table: The table of the row in ``basis``.
            basis: The column of ``rows``, a struct, that is explained.
        """
        if self.key not in {column.name for column in table.columns}:
            nothing = (F.lit(None).cast(kind).alias(name) for name, kind in _COLUMNS.items())
            return rows.select("*", *nothing).drop(basis)
        asked = rows.select("*", *_covered(table, basis, self.key, self.how.buckets)).drop(basis)
        asked = asked.persist(StorageLevel.DISK_ONLY)
        kept = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in rows.drop(basis).schema)
        events = packed_events(self.records, self._of(asked)).where(F.col("bucket") != COUNTS_BUCKET)
        both = events.groupBy("bucket").cogroup(asked.groupBy(_BUCKET))
        topics = self.topics

        def bucket(packed: pa.Table, found: pa.Table) -> pa.Table:
            return _bucket(packed, found, topics)

        return both.applyInArrow(bucket, f"{kept}, {EVENTS_DDL}")

    def _of(self, asked: DataFrame) -> Reading:
        """Return how to read the events: of the rows' keys alone, if those are few."""
        keys = [row[_KEY] for row in asked.select(_KEY).distinct().limit(_MOST_KEYS + 1).collect()]
        if len(keys) > _MOST_KEYS:
            return self.how
        only = KeyFilter("those of rows that differ", frozenset(keys).__contains__)
        return replace(self.how, only=(*self.how.only, only))


def _covered(table: Table, basis: str, key: str, buckets: int) -> list[Column]:
    """`evidence.Covered` of a row, and the bucket of its key."""
    times: list[Column] = []
    texts: list[Column] = []
    for column in table.columns:
        value = F.col(f"{basis}.{column.name}")
        if column.type == "timestamp":
            times.append(F.array(F.unix_millis(value)))
        elif column.type == "array<timestamp>":
            times.append(F.transform(value, F.unix_millis))
        elif column.type == "array<string>":
            texts.append(value)
        elif column.type == "string" and column.name != key:
            texts.append(F.array(value))
    none = F.array().cast("array<bigint>")
    every = F.flatten(F.array(none, *(F.coalesce(one, none) for one in times)))
    no_text = F.array().cast("array<string>")
    named = F.flatten(F.array(no_text, *(F.coalesce(one, no_text) for one in texts)))
    owner = F.coalesce(F.col(f"{basis}.{key}"), F.lit(""))
    # `bucket_of`, as Spark has it: the same CRC-32.
    bucket = (F.crc32(owner.cast("binary")) % buckets).cast("int")
    return [
        bucket.alias(_BUCKET),
        owner.alias(_KEY),
        F.array_min(every).alias(_FIRST),
        F.array_max(every).alias(_LAST),
        F.filter(named, lambda text: text.isNotNull()).alias(_NAMED),
    ]


def _bucket(packed: pa.Table, rows: pa.Table, topics: Topics) -> pa.Table:
    """The rows of one bucket with the events of their keys."""
    wanted = set(rows.column(_KEY).to_pylist())
    moments: dict[str, list[Moment]] = defaultdict(list)
    for payload in packed.column("payload").to_pylist():
        for key, slot, offset, event_ms, event_id in marshal.loads(payload):
            if key in wanted:
                moments[key].append(Moment(event_ms, event_id, slot, offset))
    by_key = {key: KeyEvents(moments[key]) for key in wanted}
    events, counts = [], []
    for key, *covered in zip(*(rows.column(name).to_pylist() for name in _HELPERS[1:]), strict=True):
        found = by_key[key].explaining(Covered(*covered))
        events.append([_as_event(moment, topics) for moment in found.events])
        counts.append(found.in_all)
    return (
        rows.drop_columns(list(_HELPERS))
        .append_column(EVENTS, pa.array(events, pa.list_(_EVENT_TYPE)))
        .append_column(IN_ALL, pa.array(counts, pa.int64()))
    )


def _as_event(moment: Moment, topics: Topics) -> dict[str, object]:
    topic, partition = topics.place(moment.slot)
    return {
        "event_id": moment.event_id,
        "topic": topic,
        "partition": partition,
        "offset": moment.offset,
        "event_time": moment.event_ms * 1000,
    }
