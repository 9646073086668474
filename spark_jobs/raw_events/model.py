"""Rows of ``raw_events``. There is no state."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from stateward.contract.stream_settings import StreamSettings


@dataclass(frozen=True, kw_only=True)
class RawSettings(StreamSettings):
    """Records are kept as they are: there is nothing to set. See docs/streams/raw_events.md."""

    reads_several_topics: ClassVar[bool] = True


class RawRecord(NamedTuple):
    """One row of the table ``raw_events``: a record of Kafka, byte for byte.

    Attributes:
        topic: Kafka topic.
        partition: Kafka partition.
        offset: Kafka offset.
        record_ms: Kafka's timestamp, milliseconds since 1970 UTC.
        day: Its date, days since 1970 UTC.
        key: Raw key, or None.
        value: Raw value, or None.
        header_names: Names of the headers in their order, or None.
        header_values: Their raw values, in the same order.
        raw_ms: Kafka's timestamp where ``record_ms`` is not it, but the nearest that a table can hold.
    """

    topic: str
    partition: int
    offset: int
    record_ms: int
    day: int
    key: bytes | None
    value: bytes | None
    header_names: list[str] | None
    header_values: list[bytes | None] | None
    raw_ms: int | None = None
