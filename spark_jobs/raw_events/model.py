"""Rows of ``raw_events``. There is no state."""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from stateward.contract.columns import Col, Timestamp
from stateward.contract.stream_settings import StreamSettings


@dataclass(frozen=True, kw_only=True)
class RawSettings(StreamSettings):
    """Records are kept as they are: there is nothing to set. See docs/streams/raw_events.md."""


class RawRecord(NamedTuple):
    """One record of Kafka as it was read, whatever is in it."""

    topic: Annotated[str, Col("Kafka topic")]
    partition: Annotated[int, Col("Kafka partition", type="integer", nullable=True)]
    offset: Annotated[int, Col("Kafka offset", nullable=True)]
    record_ms: Annotated[int, Timestamp("Kafka's timestamp of the record", name="record_timestamp")]
    day: Annotated[int, Col("Date of record_timestamp, UTC", name="date", type="date", nullable=True)]
    key: Annotated[bytes | None, Col("Raw key; null if the record has none", personal=True)]
    value: Annotated[bytes | None, Col("Raw value; null if the record has none", personal=True)]
    header_names: Annotated[list[str] | None, Col("Names of the headers, in order; null if there are none")]
    header_values: Annotated[
        list[bytes | None] | None, Col("Raw values of the headers, in the same order", personal=True)
    ]
    raw_ms: Annotated[
        int | None,
        Col(
            "Kafka's timestamp as it is, ms, where it is outside of the years 1 to 9999; otherwise null",
            name="record_timestamp_ms",
        ),
    ] = None
