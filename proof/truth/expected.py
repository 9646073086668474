"""The expected output of a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from proof.traffic.records import Record

Rows = list[dict[str, Any]]


class TruthError(ValueError):
    """The traffic contradicts its marks, or a stream's output cannot be predicted."""


@dataclass(frozen=True)
class Expected:
    """The output of one stream.

    Attributes:
        tables: Rows by table, as Delta returns them, in no particular order.
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
    """Computes the expected output of one stream."""

    def see(self, record: Record) -> None:
        """Process one record.

        Raises:
            TruthError: It contradicts its mark.
        """

    def finish(self) -> Expected:
        """The output after every record and every timeout, with all late events late."""
