"""What a few loads need, as `stateward size` computes it."""

from __future__ import annotations

from stateward.cli.streams.size import lines_of, rate_of
from stateward.control.sizing import Load, limit_of, size_of

LOADS = (
    Load(10_000, keys=20_000),
    Load(40_000, keys=1_000_000),
    Load(100_000, keys=10_000_000),
    Load(1_000_000, keys=100_000_000, batch_s=10),
    Load(10_000_000, keys=1_000_000_000, batch_s=60, recovery_s=600),
)


def sizes() -> str:
    """A table with a column for each load."""
    needed = [lines_of(size_of(load)) for load in LOADS]
    rows = [
        ["events per second", *(f"{load.events_per_s:,.0f}" for load in LOADS)],
        ["keys with a state", *(f"{load.keys:,}" for load in LOADS)],
        ["longest batch asked for", *(f"{load.batch_s:g} s" for load in LOADS)],
        ["recovery asked for", *(f"{load.recovery_s:g} s" for load in LOADS)],
        *([what, *(lines[at][1] for lines in needed)] for at, (what, _) in enumerate(needed[0])),
        [f"limit: {limit_of(LOADS[0]).part}", *(rate_of(limit_of(load)) for load in LOADS)],
    ]
    head, *rest = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|---" * (len(LOADS) + 1) + "|", *rest])
