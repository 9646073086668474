"""What ``raw_events`` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.raw_events.headers import headers_of
from spark_jobs.raw_events.model import RawRecord
from stateward.contract import table_names
from stateward.runtime.api.landing_job import LandingJob
from stateward.runtime.api.stream_job import Output
from stateward.runtime.api.tables import Column, Table
from stateward.runtime.sink.output_rows import FIRST_MS, LAST_MS

if TYPE_CHECKING:
    from confluent_kafka import Message

_DAY_MS = 86_400_000

RAW_EVENTS = Table(
    table_names.RAW_EVENTS,
    "One record of Kafka as it was read, whatever is in it",
    (
        Column("topic", "string", "Kafka topic"),
        Column("partition", "integer", "Kafka partition"),
        Column("offset", "long", "Kafka offset"),
        Column("record_timestamp", "timestamp", "Kafka's timestamp of the record"),
        Column("date", "date", "Date of record_timestamp, UTC"),
        Column("key", "binary", "Raw key; null if the record has none", personal=True),
        Column("value", "binary", "Raw value; null if the record has none", personal=True),
        Column("header_names", "array<string>", "Names of the headers, in order; null if there are none"),
        Column(
            "header_values", "array<binary>", "Raw values of the headers, in the same order", personal=True
        ),
        Column(
            "record_timestamp_ms",
            "long",
            "Kafka's timestamp as it is, ms, where it is outside of the years 1 to 9999; otherwise null",
        ),
    ),
    partition_by=("topic", "date"),
    nullable=(
        "partition",
        "offset",
        "date",
        "key",
        "value",
        "header_names",
        "header_values",
        "record_timestamp_ms",
    ),
)


def _row(message: Message) -> RawRecord:
    raw_ms = message.timestamp()[1]
    # A producer may have stamped its records in micro- or nanoseconds; a partition has to have a date.
    record_ms = min(max(raw_ms, FIRST_MS), LAST_MS)
    headers = headers_of(message)
    return RawRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        record_ms,
        record_ms // _DAY_MS,
        message.key(),
        message.value(),
        [name for name, _ in headers] or None,
        [value for _, value in headers] or None,
        None if record_ms == raw_ms else raw_ms,
    )


JOB = LandingJob(output=Output(RawRecord, RAW_EVENTS), row=_row)
