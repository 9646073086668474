"""How far back a recomputation must read, and from which time its result is exact. Pure.

A key without an event for as long as the stream's longest chain of timeouts has no state. So a fold that
starts after such a silence is exact, however little was read before it. One that starts elsewhere may lack
the state of an earlier event::

    read from R          silence                          e: the first event after it
    R---e----e-----------|<------- the chain ------->|----e----->
                                                          exact from here on: the key's anchor

Times are event times, milliseconds since 1970 UTC.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

EVER = -(1 << 63)
"""A time before every event."""


@dataclass(frozen=True)
class Span:
    """Rows with a time at or after ``from_ms`` and before ``to_ms``."""

    from_ms: int
    to_ms: int

    def holds(self, at_ms: int) -> bool:
        """Return whether it contains a time."""
        return self.from_ms <= at_ms < self.to_ms


@dataclass(frozen=True)
class Landed:
    """The landed records of one partition.

    Attributes:
        first: Offset of its first record.
        end: The offset after its last one.
        first_ms: Kafka's timestamp of its first record.
    """

    first: int
    end: int
    first_ms: int


def first_look(span: Span, chain_ms: int) -> int:
    """Return the time from which to read, which is enough for keys that were silent shortly before the span.

    One chain covers a state that was open when the span started, another one the silence before it.
    """
    return span.from_ms - 2 * chain_ms


def last_needed(span: Span, chain_ms: int, lateness_ms: int) -> int:
    """Return the time up to which to read: later events only lead to rows later than the span."""
    return span.to_ms + chain_ms + lateness_ms


def landed_since(landed: Mapping[int, Landed], begun: Mapping[int, int], max_ahead_ms: int) -> int | None:
    """Return the event time from which every record is landed; None if all that the stream read are.

    A missing record is older, by Kafka's timestamp, than the first landed one of its partition, and its event
    time is at most ``max_ahead_ms`` later than its timestamp.

    Args:
        landed: Landed records by partition.
        begun: The offset at which the stream began to read each partition; 0 for a missing one.
        max_ahead_ms: The stream's setting.
    """
    cut = [one.first_ms for partition, one in landed.items() if one.first > begun.get(partition, 0)]
    return max(cut) + max_ahead_ms if cut else None


def not_landed(landed: Mapping[int, Landed], committed: Mapping[int, int]) -> dict[int, int]:
    """Return by partition how many records the stream has read that are not landed yet."""
    behind = {
        partition: end - (landed[partition].end if partition in landed else 0)
        for partition, end in committed.items()
    }
    return {partition: count for partition, count in behind.items() if count > 0}


def sure_watermark(
    batches: Iterable[tuple[Mapping[int, int], int]], landed: Mapping[int, Landed]
) -> int | None:
    """Return the watermark below which no record that is not landed can have changed anything.

    Such a record was read by a batch after the last batch whose records are all landed. An event older than
    the watermark of the first such batch was too late for it.

    Args:
        batches: The stream's committed batches, the newest first: where each ends, and its watermark (ms).
        landed: Landed records by partition.

    Returns:
        None if the stream has no batch, or no known batch has all its records landed.
    """
    watermark_ms = None
    for ends, its_watermark_ms in batches:
        if watermark_ms is None:
            watermark_ms = its_watermark_ms
        if not not_landed(landed, ends):
            return watermark_ms
        watermark_ms = its_watermark_ms
    return None


def sure_span(span: Span, exact_from_ms: int | None, sure_ms: int | None, behind_ms: int) -> Span | None:
    """Return the part of a span in which a difference can only be an error; None if there is none.

    Args:
        span: The requested rows.
        exact_from_ms: Time from which the recomputed rows are exact; None if some never are.
        sure_ms: `sure_watermark`; None if there is none.
        behind_ms: How far the watermark may be beyond the time of a row that is not written yet.
    """
    if exact_from_ms is None or sure_ms is None:
        return None
    begin_ms, end_ms = max(span.from_ms, exact_from_ms), min(span.to_ms, sure_ms - behind_ms)
    return Span(begin_ms, end_ms) if begin_ms < end_ms else None


def anchor(times: Iterable[int], known_ms: int | None, chain_ms: int) -> int | None:
    """Return the time from which the fold of a key is exact.

    Args:
        times: The key's event times, in order; not empty.
        known_ms: Time from which all its events are known; None if all are.
        chain_ms: The longest chain of timeouts.

    Returns:
        `EVER` if all of it is exact; None if no event follows a long enough silence.
    """
    if known_ms is None:
        return EVER
    before_ms = known_ms
    for at_ms in times:
        if at_ms - before_ms >= chain_ms:
            return at_ms if before_ms > known_ms else known_ms + chain_ms
        before_ms = max(before_ms, at_ms)
    return None
