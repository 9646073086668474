"""The limits of a recomputed result, as text for its reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stateward.contract.reading import iso_ms
from stateward.recompute.lookback import Landed, Span, sure_span
from stateward.runtime.watermark.topic_partitions import Topics

if TYPE_CHECKING:
    from stateward.recompute.bucket_recompute import Found
    from stateward.recompute.request import Recomputable, Request


@dataclass(frozen=True)
class Basis:
    """What limits a result.

    Attributes:
        span: The requested rows.
        landed: Landed records by slot of the partition (`topic_partitions`).
        missing: By slot how many records the stream has read that are not landed.
        exact_from_ms: Time from which the result is exact; None if it is not for some key.
        watermark_ms: The stream's watermark; 0 if it has not started.
        behind_ms: How far the watermark may be beyond the time of a row that is not written yet.
        sure_ms: Its watermark before it read what is not landed; None if that is not known.
        eager: Whether the stream acts on arrival.
    """

    span: Span
    landed: Mapping[int, Landed]
    missing: Mapping[int, int]
    exact_from_ms: int | None
    watermark_ms: int
    behind_ms: int = 0
    sure_ms: int | None = None
    eager: bool = False

    @property
    def sure(self) -> Span | None:
        """The part of the span in which a difference can only be an error."""
        if self.eager:
            return None
        return sure_span(self.span, self.exact_from_ms, self.sure_ms, self.behind_ms)

    @property
    def is_exact(self) -> bool:
        """Whether the landed records reach back far enough for the whole span."""
        return self.exact_from_ms is not None and self.exact_from_ms <= self.span.from_ms


def notes(request: Request, job: Recomputable, found: Found, basis: Basis) -> list[str]:
    """Return one text for each limit."""
    config, end = request.config, iso_ms(request.span.to_ms)
    topics = Topics(config.topics)
    texts = [*_reach(", ".join(config.topics), found, basis)]
    if basis.missing:
        behind = ", ".join(
            f"{count} of partition {topics.named(slot)}" for slot, count in sorted(basis.missing.items())
        )
        texts.append(
            f"raw_events lacks records of {', '.join(config.topics)} that the stream has read ({behind}): "
            "let the stream raw_events catch up, and run this again."
        )
    if request.compare and basis.watermark_ms < request.span.to_ms + basis.behind_ms:
        got = iso_ms(basis.watermark_ms) if basis.watermark_ms else "nowhere yet"
        behind = f"{basis.behind_ms / 60_000:g} min before " if basis.behind_ms else ""
        texts.append(
            f"The stream has got to {got}: rows from {behind}then to {end} may not be in its tables yet."
        )
    if config.emission == "eager":
        texts.append(
            "The stream acts on arrival (emission: eager); this answer is that of the order of time."
        )
    for output in job.outputs:
        if output.table.current_by:
            key = ", ".join(output.table.current_by)
            texts.append(
                f"{output.table.name} holds the last row of each {key} as of {end}, of those that changed in "
                "the range; keys that have changed since are not compared."
            )
    return texts


def _reach(topic: str, found: Found, basis: Basis) -> Iterator[str]:
    if basis.is_exact:
        return
    begin = iso_ms(min(one.first_ms for one in basis.landed.values()))
    short = (
        f"raw_events does not reach back far enough for an exact answer: of {topic} it begins with the "
        f"records of {begin}, and the stream has read earlier ones."
    )
    exact_ms = basis.exact_from_ms
    if exact_ms is not None and exact_ms < basis.span.to_ms:
        yield f"{short} Rows are exact from {iso_ms(exact_ms)} on."
        return
    keys = ", ".join(found.inexact_keys)
    yield (
        f"{short} In this range {found.counts['inexact']} of {found.counts['keys']} keys are not exact, such "
        f"as {keys or 'any that fell silent before'}."
    )
