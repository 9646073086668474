"""What a change of a state is expected to cost and to save. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stateward.contract.state_care import Change, ChangeKind, Look

# Drain, start of a Spark job, start of the stream.
_FIXED_S = 90.0
# On a busy machine 206 MB of keys and states were read, changed and verified in 47 s, beside what a small
# state takes (docs/state-repartition.md). The files have older versions too, which are only copied.
_CHANGED_BYTES_PER_S = 4_000_000
# 284 MB of files were copied in 2.7 s; they are copied into the savepoint and into the next generation.
_COPIED_BYTES_PER_S = 100_000_000
_COPIES = 2


@dataclass(frozen=True)
class Cost:
    """What a change is expected to cost.

    Attributes:
        pause_s: How long the stream is stopped, seconds.
        written_bytes: What is written: a savepoint, and the next generation.
        is_measured: Whether the pause follows from an earlier change of this stream.
    """

    pause_s: float
    written_bytes: int
    is_measured: bool


@dataclass(frozen=True)
class Saving:
    """What a change is expected to save; each before and after it.

    Attributes:
        largest_bytes: Size of the largest partition, which a driver loads as a whole.
        tasks: Tasks of a batch that work on the state, each with a commit of its own.
        batch_ms: Duration of a busy batch, milliseconds; None if it was not measured, or stays.
    """

    largest_bytes: tuple[int, int]
    tasks: tuple[int, int]
    batch_ms: tuple[float, float] | None = None


def cost_of(kind: ChangeKind, look: Look, changes: Sequence[Change]) -> Cost:
    """Estimate the cost of a change: as the last one of its kind, by size; without one by measured rates.

    Args:
        kind: The change.
        look: The state.
        changes: The changes so far, the oldest first.
    """
    files_bytes, written = look.files_bytes, _COPIES * look.files_bytes
    for change in reversed(changes):
        if change.kind == kind and change.outcome == "done" and change.pause_s is not None:
            growth = files_bytes / change.files_bytes if change.files_bytes else 1.0
            moved = max(0.0, change.pause_s - _FIXED_S) * growth
            return Cost(min(change.pause_s, _FIXED_S) + moved, written, is_measured=True)
    changed_s, copied_s = look.state_bytes / _CHANGED_BYTES_PER_S, written / _COPIED_BYTES_PER_S
    return Cost(_FIXED_S + changed_s + copied_s, written, is_measured=False)


def savepoint_cost(files_bytes: int) -> Cost:
    """Estimate the cost of a savepoint, which copies the files of a stopped stream."""
    return Cost(_FIXED_S + files_bytes / _COPIED_BYTES_PER_S, files_bytes, is_measured=False)
