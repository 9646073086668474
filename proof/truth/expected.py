"""What is known in advance of a stream's output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from proof.traffic.records import Record

Rows = list[dict[str, Any]]


class TruthError(ValueError):
    """The traffic is not what it says it is, or a stream's output cannot be known."""


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

    def see(self, record: Record) -> None:
        """Take one record into account.

        Raises:
            TruthError: It is not what its mark says.
        """

    def finish(self) -> Expected:
        """The output once every record was seen, every timeout has passed, and all late ones were late."""
