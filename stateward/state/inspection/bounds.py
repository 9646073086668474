"""The bounds of a keyed stream's states: how often each was reached, and what that has cost.

Both are those of `runtime.admission`, and are counted in ``batch_counts``. What a stream's own state is
bounded by follows from its logic and costs nothing (docs/state-bounds.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from stateward.contract.table_names import BATCH_COUNTS
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
        limit: The most that a key may have.
        policy: What happens beyond it.
        reached: At how many looks at a key it was reached.
        cost: What that came to, in words; empty if it was never reached.
    """

    name: str
    limit: int
    policy: str
    reached: int
    cost: str


def bounds_of(job: AnyJob | None, config: Config | None, found: Retained) -> tuple[Bound, ...]:
    """What is on record of a checkpoint's bounds, up to the batch that is looked at.

    Returns:
        None of a stream that has no keyed logic, or whose table of counts is not there.
    """
    if not isinstance(job, StreamJob) or config is None or BATCH_COUNTS not in config.tables:
        return ()
    checkpoint = Checkpoint(found.uri)
    query_id = checkpoint.query_id()
    if query_id is None:
        return ()
    uri, earlier = config.tables[BATCH_COUNTS], checkpoint.earlier()
    if not DeltaTable.is_deltatable(uri):
        # A checkpoint may be looked at where its tables are not.
        return ()
    _, totals = recorded(uri, found.stream, query_id, earlier, found.batch_id)
    return told(config.limits.max_held, totals)


def told(limit: int, totals: dict[str, int]) -> tuple[Bound, ...]:
    """The bounds, from their counts."""
    early, below, forgotten = (totals[name] for name in ("folded_early", "below_floor", "ids_forgotten"))
    return (
        Bound(
            "events that wait for the watermark",
            limit,
            "the oldest are folded early; what comes then and is older than those is late",
            totals["held_full"],
            f"{early:,} events folded early, {below:,} late for it" if early or below else "",
        ),
        Bound(
            "ids that are remembered, to tell duplicates",
            limit,
            "the oldest are forgotten; if such an event comes again, it counts again",
            totals["ids_full"],
            f"{forgotten:,} ids forgotten" if forgotten else "",
        ),
    )
