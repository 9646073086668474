"""What ``raw_events`` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.raw_events.headers import headers_of
from spark_jobs.raw_events.model import RawRecord
from stateward.contract import names
from stateward.runtime.api.landing_job import LandingJob
from stateward.runtime.api.row_table import table_of
from stateward.runtime.api.stream_job import Output
from stateward.runtime.sink.output_rows import FIRST_MS, LAST_MS

if TYPE_CHECKING:
    from confluent_kafka import Message

_DAY_MS = 86_400_000

RAW_EVENTS = table_of(RawRecord, names.RAW_EVENTS, partition_by=("topic", "date"))


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
