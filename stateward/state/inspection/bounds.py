"""The bounds of a keyed stream's states: how often each was reached, and the consequences.

The bounds are those of `runtime.watermark.admission`, and ``batch_counts`` counts how often they are
reached. The logic bounds the stream's own state (docs/state-bounds.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from stateward.contract.names import BATCH_COUNTS
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.sink.ledger import recorded

if TYPE_CHECKING:
    from stateward.runtime.api.any_job import AnyJob
    from stateward.runtime.api.config import Config
    from stateward.state.reader.retained_batches import Retained


@dataclass(frozen=True)
class Bound:
    """A bound per key.

    Attributes:
        name: What is bounded.
        limit: The maximum per key.
        policy: What happens at the maximum.
        reached: How many times a key was processed at the maximum.
        cost: The consequences, as text; empty if it was never reached.
    """

    name: str
    limit: int
    policy: str
    reached: int
    cost: str


def bounds_of(job: AnyJob | None, config: Config | None, found: Retained) -> tuple[Bound, ...]:
    """The bounds with their counts up to the inspected batch.

    Returns:
        Empty if the stream has no keyed logic, or no table of counts.
    """
    if not isinstance(job, StreamJob) or config is None or BATCH_COUNTS not in config.tables:
        return ()
    checkpoint = Checkpoint(found.uri)
    query_id = checkpoint.query_id()
    if query_id is None:
        return ()
    uri, earlier = config.tables[BATCH_COUNTS], checkpoint.earlier()
    if not DeltaTable.is_deltatable(uri):
        # A checkpoint may be inspected without access to its tables.
        return ()
    _, totals = recorded(uri, found.stream, query_id, earlier, found.batch_id)
    return bounds_from(config.limits.max_held, totals)


def bounds_from(limit: int, totals: dict[str, int]) -> tuple[Bound, ...]:
    """The bounds with their counts."""
    early, below, forgotten = (totals[name] for name in ("folded_early", "below_floor", "ids_forgotten"))
    return (
        Bound(
            "events that wait for the watermark",
            limit,
            "the oldest are folded early; a later event that is older than those is late",
            totals["held_full"],
            f"{early:,} events folded early, {below:,} late for it" if early or below else "",
        ),
        Bound(
            "ids that are remembered, to detect duplicates",
            limit,
            "the oldest are forgotten; a repeated event with a forgotten id counts again",
            totals["ids_full"],
            f"{forgotten:,} ids forgotten" if forgotten else "",
        ),
    )
