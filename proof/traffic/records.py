"""What is generated: records, each with a mark that says what a stream has to make of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

EVENT, DUPLICATE, DEAD, LATE = "event", "duplicate", "dead", "late"
MARKS = (EVENT, DUPLICATE, DEAD, LATE)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_SECONDS = 100_000


class Record(NamedTuple):
    """One record.

    Attributes:
        mark: One of `MARKS`.
        key: Kafka's key.
        value: Kafka's value; None is a tombstone.
        reason: The reason in `dead_letters`, for a dead letter.
        field: The invalid field, for a dead letter. A stream that does not declare it sees a valid event.
            None when every stream has to reject the record.
    """

    mark: str
    key: bytes
    value: bytes | None
    reason: str | None = None
    field: str | None = None


@dataclass(frozen=True)
class Slice:
    """The records of one topic that arrive within one slice of event time, in the order they are sent."""

    topic: str
    records: list[Record]


class Clock:
    """Writes times as they are on the wire: ISO 8601 UTC with milliseconds."""

    def __init__(self) -> None:
        self._seconds: dict[int, str] = {}

    def iso(self, at_ms: int) -> str:
        """Return milliseconds since 1970 UTC as text."""
        second, rest = divmod(at_ms, 1000)
        text = self._seconds.get(second)
        if text is None:
            if len(self._seconds) >= _MOST_SECONDS:
                self._seconds.clear()
            text = (_EPOCH + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")
            self._seconds[second] = text
        return f"{text}.{rest:03d}Z"


def to_ms(moment: datetime) -> int:
    """Return a moment as milliseconds since 1970 UTC, rounded down."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def from_ms(at_ms: int) -> datetime:
    """Return milliseconds since 1970 as a moment in UTC."""
    return _EPOCH + timedelta(milliseconds=at_ms)


def values_of(slices: Iterator[Slice]) -> Iterator[tuple[str, Record]]:
    """Yield the records of all slices with their topics."""
    for piece in slices:
        for record in piece.records:
            yield piece.topic, record
