"""What ``raw_events`` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from spark_jobs.raw_events.model import RawRecord
from spark_jobs.runtime.landing_job import LandingJob
from spark_jobs.runtime.stream_job import Output
from spark_jobs.runtime.tables import Column, Table

if TYPE_CHECKING:
    from confluent_kafka import Message

_DAY_MS = 86_400_000

RAW_EVENTS = Table(
    "raw_events",
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
    ),
    partition_by=("topic", "date"),
)


def _row(message: Message) -> RawRecord:
    record_ms = message.timestamp()[1]
    # A consumer gives pairs; the client's types allow what a producer may give as well.
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
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
    )


JOB = LandingJob(output=Output(RawRecord, RAW_EVENTS), row=_row)
