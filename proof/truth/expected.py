"""What is known in advance of a stream's output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

Rows = list[dict[str, Any]]

EVENT, DUPLICATE, DEAD, LATE = "event", "duplicate", "dead", "late"


class TruthError(ValueError):
    """The traffic is not what it says it is, or a stream's output cannot be known."""


class Sent(NamedTuple):
    """One record that was sent, and what a stream has to make of it (docs/traffic.md).

    Attributes:
        mark: ``event``, ``duplicate``, ``dead`` or ``late``.
        key: Kafka's key.
        value: Kafka's value.
        reason: Of a dead one: the reason in ``dead_letters``.
        field: Of a dead one: the field that is wrong; a stream that does not declare it sees an event.
    """

    mark: str
    key: bytes
    value: bytes | None
    reason: str | None = None
    field: str | None = None


@dataclass(frozen=True)
class Expected:
    """The output of one stream.

    Attributes:
        tables: By table its rows, as Delta returns them, in no particular order.
        counts: ``accepted``, ``dead``, ``late`` and ``duplicates``, as in ``batch_counts``.
        dead_letters: ``reason``, ``key`` and ``value`` of each.
        late_events: ``event_id``, ``key``, ``event_time`` and ``value`` of each.
        busiest_key: The most events that one key has. The promise holds up to ``max_held_events``
            of them waiting for the watermark.
    """

    tables: dict[str, Rows]
    counts: dict[str, int]
    dead_letters: Rows
    late_events: Rows
    busiest_key: int


class StreamTruth(Protocol):
    """Finds out what one stream has to make of its topic's records."""

    def see(self, record: Sent) -> None:
        """Take one record into account.

        Raises:
            TruthError: It is not what its mark says.
        """

    def finish(self) -> Expected:
        """The output once every record was seen, every timeout has passed, and all late ones were late."""
