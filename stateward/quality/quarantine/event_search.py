"""The Kafka records behind some rows: landed in `raw_events`, with the row's key, in its time.

No declaration says which events made a row, so this is a search: an event is found if the row contains its
id, or if it lies between the earliest and the latest time in the row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stateward.runtime.ingest.parse import Rejection, place_id
from stateward.runtime.ingest.shaped_records import parser_of
from stateward.runtime.watermark.topic_partitions import Topics

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from stateward.runtime.api.config import Config
    from stateward.runtime.api.record_fields import Bounds, Field

MOST_EVENTS = 10
"""At most so many events of a row are listed; all are counted."""

_FOUND = pa.schema(
    [
        ("row_hash", pa.string()),
        ("event_ms", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("event_id", pa.string()),
    ]
)
_FOUND_DDL = "row_hash string, event_ms bigint, `partition` int, `offset` bigint, event_id string"
_PLAIN = re.compile(r"[A-Za-z0-9._:@+-]+")


@dataclass(frozen=True)
class Wanted:
    """The events of one row.

    Attributes:
        row_hash: the row.
        owner: its key.
        from_ms: the earliest time in it, milliseconds since 1970 UTC; None without times.
        to_ms: the latest.
        named: texts in it, some of which may be event ids.
    """

    row_hash: str
    owner: str
    from_ms: int | None
    to_ms: int | None
    named: frozenset[str]

    def takes(self, event_id: str, event_ms: int) -> bool:
        """Return whether an event of the key is one of the row."""
        if event_id in self.named:
            return True
        return self.from_ms is not None and self.to_ms is not None and self.from_ms <= event_ms <= self.to_ms


def wanted_of(row: Mapping[str, Any], key: str) -> Wanted | None:
    """Return which events to look for, or None if the row has no key.

    Args:
        row: its values by column, and its `row_hash`.
        key: the column with the stream's key.
    """
    owner = row.get(key)
    if not isinstance(owner, str):
        return None
    times, texts = [], set()
    for name, value in row.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, datetime):
                times.append(_ms(one))
            elif isinstance(one, str) and name not in (key, "row_hash"):
                texts.add(one)
    return Wanted(
        row_hash=str(row["row_hash"]),
        owner=owner,
        from_ms=min(times, default=None),
        to_ms=max(times, default=None),
        named=frozenset(texts),
    )


@dataclass(frozen=True)
class EventSearch:
    """Finds events in `raw_events`.

    Attributes:
        raw_uri: the table.
        config: the stream, as its driver is configured.
        job: its declaration, with a key, fields and an owner.
    """

    spark: SparkSession
    raw_uri: str
    config: Config
    job: Any

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return by `row_hash` the events of the rows: how many, and where the first of them are in Kafka."""
        wanted = [one for row in rows if (one := wanted_of(row, self.job.key.name)) is not None]
        if not wanted:
            return {}
        records = self._records(wanted)
        topics = Topics(self.config.topics)
        matching = matcher(self.job.fields(self.config), self.config.bounds, self.job.owner, wanted, topics)
        found = records.mapInArrow(matching, _FOUND_DDL)
        by_row: dict[str, Any] = {}
        for row in _first_of_each(found).collect():
            events = [self._as_event(one) for one in row["events"]]
            by_row[row["row_hash"]] = {"topic": self.config.topic, "count": row["count"], "first": events}
        return by_row

    def _as_event(self, found: Any) -> dict[str, Any]:
        """Where an event is; it names its topic if the stream reads several."""
        topics = Topics(self.config.topics)
        topic, partition = topics.place(found["partition"])
        named = {"topic": topic} if len(topics.names) > 1 else {}
        return {**named, "partition": partition, "offset": found["offset"], "event_id": found["event_id"]}

    def _records(self, wanted: Sequence[Wanted]) -> DataFrame:
        from pyspark.sql import functions as F

        topics = Topics(self.config.topics)
        raw = self.spark.read.format("delta").load(self.raw_uri)
        raw = raw.where(F.col("topic").isin(*topics.names))
        begins = [one.from_ms for one in wanted]
        if None not in begins:
            # A record is written at most `max_ahead` before the time of its event.
            oldest_ms = min(at for at in begins if at is not None) - self.config.max_ahead_ms
            raw = raw.where(F.col("date") >= F.lit(_instant(oldest_ms).date()))
        owners = {one.owner for one in wanted}
        if all(_PLAIN.fullmatch(owner) for owner in owners):
            # JSON may encode other characters in more than one way.
            holds = [F.contains("value", F.encode(F.lit(owner), "UTF-8")) for owner in sorted(owners)]
            condition = holds[0]
            for one in holds[1:]:
                condition |= one
            raw = raw.where(condition)
        time = F.unix_millis("record_timestamp").alias("record_ms")
        slot = F.lit(0)
        for name in topics.names[1:]:
            slot = F.when(F.col("topic") == name, F.lit(topics.slot(name, 0))).otherwise(slot)
        return raw.select((F.col("partition") + slot).alias("partition"), "offset", time, "value")


def own_records(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return by `row_hash` the record of a row, for tables in which each row names one."""
    by_row = {}
    for row in rows:
        if row.get("topic") is not None and row.get("offset") is not None:
            record = {name: row.get(name) for name in ("partition", "offset", "event_id")}
            by_row[str(row["row_hash"])] = {"topic": row["topic"], "count": 1, "first": [record]}
    return by_row


def matcher(
    fields: tuple[Field, ...],
    bounds: Bounds,
    owner: Callable[[Any], str],
    wanted: Sequence[Wanted],
    topics: Topics,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what finds the wanted events in batches of `partition, offset, record_ms, value`.

    The partition is its slot (`topic_partitions`).
    """
    by_owner: dict[str, list[Wanted]] = {}
    for one in wanted:
        by_owner.setdefault(one.owner, []).append(one)

    def matching(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parser = parser_of(fields, bounds)
        for batch in batches:
            found = []
            columns = (batch.column(name).to_pylist() for name in batch.schema.names)
            for partition, offset, record_ms, value in zip(*columns, strict=True):
                parsed = parser.parse(value, record_ms)
                if isinstance(parsed, Rejection):
                    continue
                if parser.names_places:
                    parsed.record.event_id = place_id(*topics.place(partition), offset)
                event_id, event_ms = parsed.record.event_id, parsed.event_ms
                found += [
                    (one.row_hash, event_ms, partition, offset, event_id)
                    for one in by_owner.get(owner(parsed.record), ())
                    if one.takes(event_id, event_ms)
                ]
            arrays = [
                pa.array(list(column), field.type)
                for column, field in zip(zip(*found, strict=True) if found else [()] * 5, _FOUND, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=_FOUND)

    return matching


def _first_of_each(found: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    events = F.array_sort(F.collect_list(F.struct("event_ms", "partition", "offset", "event_id")))
    grouped = found.groupBy("row_hash").agg(F.count("*").alias("count"), events.alias("events"))
    return grouped.withColumn("events", F.slice("events", 1, MOST_EVENTS))


def _ms(at: datetime) -> int:
    # Spark gives local times without a zone, of the process that collects.
    return int(at.timestamp() * 1000)


def _instant(at_ms: int) -> datetime:
    return datetime.fromtimestamp(max(at_ms, 0) / 1000, UTC)
