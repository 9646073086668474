"""How long a stream stood still while records were waiting, and after which fault. Pure."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

NONE_OF_ITS_OWN = "none"
"""The cause of a gap before which nothing had happened to the stream."""

# A gap starts with the last commit before the fault, which is observed up to one poll later.
_LOOK_S = 2.0


@dataclass(frozen=True)
class Hit:
    """An injected fault.

    Attributes:
        at_s: When, in seconds from the start.
        kind: A name in `faults.FAULTS`.
        what: Description of the target.
        stream: The affected stream; None if all are affected.
    """

    at_s: float
    kind: str
    what: str
    stream: str | None = None


@dataclass(frozen=True)
class Miss:
    """A fault that was not injected, and why."""

    at_s: float
    kind: str
    why: str


@dataclass(frozen=True)
class Gap:
    """A time in which records were waiting and none was committed; seconds from the start."""

    stream: str
    since_s: float
    until_s: float

    @property
    def seconds(self) -> float:
        """Duration, seconds."""
        return self.until_s - self.since_s


@dataclass
class Progress:
    """The observed progress of one stream.

    Attributes:
        gaps: The gaps that have ended, in order.
        delivered: The maximum number of committed records observed.
    """

    stream: str
    gaps: list[Gap] = field(default_factory=list)
    delivered: int = 0
    _since_s: float | None = None

    def see(self, at_s: float, handed: int, delivered: int | None) -> None:
        """Record one observation.

        Args:
            at_s: When, in seconds from the start.
            handed: How many records have been handed to the producer. What a broker that is away has not
                taken is waiting, too.
            delivered: How many the stream has committed; None if unknown.
        """
        moved = delivered is not None and delivered > self.delivered
        if moved and delivered is not None:
            self.delivered = delivered
            self._end(at_s)
        if self._since_s is None and handed > self.delivered:
            self._since_s = at_s

    def finish(self, at_s: float) -> None:
        """End the gap that is open, if one is."""
        self._end(at_s)

    def _end(self, at_s: float) -> None:
        if self._since_s is not None:
            self.gaps.append(Gap(self.stream, self._since_s, at_s))
        self._since_s = None


@dataclass(frozen=True)
class Standstill:
    """The effect of one kind of fault on a stream.

    Attributes:
        stream: The stream.
        cause: The kind of the first fault in the gap, or else of the last one before it.
        gaps: Number of gaps attributed to it: for each fault the longest.
        median_s: Their median, seconds.
        longest_s: The longest, seconds.
        longest_alone_s: The longest with no other fault in it; None if there is none.
    """

    stream: str
    cause: str
    gaps: int
    median_s: float
    longest_s: float
    longest_alone_s: float | None


def standstills(gaps: Iterable[Gap], hits: Sequence[Hit]) -> tuple[Standstill, ...]:
    """By stream and cause the time without progress.

    A fault that is followed by several gaps, as by batches that take a second each, counts with the longest.
    """
    by_fault: dict[tuple[str, str, float], tuple[Gap, bool]] = {}
    for gap in gaps:
        cause, alone = cause_of(gap, hits)
        name = (gap.stream, cause.kind if cause else NONE_OF_ITS_OWN, cause.at_s if cause else 0.0)
        if name not in by_fault or gap.seconds > by_fault[name][0].seconds:
            by_fault[name] = (gap, alone)
    grouped: dict[tuple[str, str], list[tuple[Gap, bool]]] = defaultdict(list)
    for (stream, kind, _), found in by_fault.items():
        grouped[stream, kind].append(found)
    return tuple(_standstill(*name, grouped[name]) for name in sorted(grouped))


def cause_of(gap: Gap, hits: Sequence[Hit]) -> tuple[Hit | None, bool]:
    """The fault to which a gap is attributed, and whether it was the only one in it."""
    mine = [hit for hit in hits if hit.stream in (None, gap.stream)]
    inside = [hit for hit in mine if gap.since_s - _LOOK_S <= hit.at_s < gap.until_s]
    if inside:
        return inside[0], len(inside) == 1
    before = [hit for hit in mine if hit.at_s < gap.since_s]
    return (before[-1] if before else None), True


def _standstill(stream: str, cause: str, found: list[tuple[Gap, bool]]) -> Standstill:
    seconds = [gap.seconds for gap, _ in found]
    alone = [gap.seconds for gap, only in found if only]
    return Standstill(
        stream,
        cause,
        len(found),
        round(statistics.median(seconds), 1),
        round(max(seconds), 1),
        round(max(alone), 1) if alone else None,
    )
