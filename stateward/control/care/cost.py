"""What a change of a state is expected to cost and to save. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from stateward.contract.state_care import Change, ChangeKind, Look

# Drain, start of a Spark job, start of the stream.
_FIXED_S = 90.0
# On a busy machine 206 MB of keys and states were read, changed and verified in 47 s, beside what a small
# state takes (docs/state-repartition.md). The files have older versions too, which are only copied.
_CHANGED_BYTES_PER_S = 4_000_000
# 284 MB of files were copied in 2.7 s; they are copied into the savepoint and into the next generation.
_COPIED_BYTES_PER_S = 100_000_000
_COPIES = 2
# The pauses of small states differed by so much from move to move on a busy machine (docs/state-care.md).
_NOISE_S = 60.0


@dataclass(frozen=True)
class Cost:
    """What a change is expected to cost.

    Attributes:
        pause_s: How long the stream is stopped, seconds.
        written_bytes: What is written: a savepoint, and the next generation.
        is_measured: Whether the pause follows from an earlier change of this stream.
        state_bytes: Size of the keys and states that are changed.
    """

    pause_s: float
    written_bytes: int
    is_measured: bool
    state_bytes: int = 0


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
    """Estimate the cost of a change: from the earlier ones of its kind; without any from known rates.

    A pause has a fixed part (drain, start, first batch) and a part by size, which is a multiple of what the
    known rates say. The estimate repeats the last pause for a state of the same size, so a slow machine
    counts from the first change on. The multiple is that of a least-squares line through all changes in
    which the known rates count too: pauses of states of about one size differ by chance, and say little
    about a larger one.

    Args:
        kind: The change.
        look: The state.
        changes: The changes so far, the oldest first.
    """
    files_bytes, written = look.files_bytes, _COPIES * look.files_bytes
    by_size_s = _by_size_s(look.state_bytes, files_bytes)
    measured = [
        # Without its size (an earlier release) a state has half of the files, which have older versions too.
        (
            _by_size_s(change.state_bytes or change.files_bytes // 2, change.files_bytes),
            max(0.0, change.pause_s),  # negative if a clock was set back
        )
        for change in changes
        if change.kind == kind and change.outcome == "done" and change.pause_s is not None
    ]
    pause_s = _fitted_s(by_size_s, measured) if measured else _FIXED_S + by_size_s
    return Cost(pause_s, written, is_measured=bool(measured), state_bytes=look.state_bytes)


def _by_size_s(state_bytes: int, files_bytes: int) -> float:
    """The part of a pause by size, seconds, by the known rates."""
    return state_bytes / _CHANGED_BYTES_PER_S + _COPIES * files_bytes / _COPIED_BYTES_PER_S


def _fitted_s(by_size_s: float, measured: Sequence[tuple[float, float]]) -> float:
    """The pause on a line through the last of the measured pairs: part by size by known rates, and pause."""
    last_by_size_s, last_s = measured[-1]
    multiple = _multiple(measured)
    fixed_s = max(0.0, last_s - multiple * last_by_size_s)
    if last_by_size_s:
        # Less than before if the whole of the last pause was shorter than its part by size should have been.
        multiple = (last_s - fixed_s) / last_by_size_s
    return fixed_s + multiple * by_size_s


def _multiple(measured: Sequence[tuple[float, float]]) -> float:
    """The slope of the least-squares line, at least 0; that of the known rates, 1, counts by the noise."""
    mean_size, mean_pause = fmean(size for size, _ in measured), fmean(pause for _, pause in measured)
    weight = _NOISE_S * _NOISE_S
    spread = sum((size - mean_size) ** 2 for size, _ in measured)
    together = sum((size - mean_size) * (pause - mean_pause) for size, pause in measured)
    return max(0.0, (together + weight) / (spread + weight))


def savepoint_cost(files_bytes: int) -> Cost:
    """Estimate the cost of a savepoint, which copies the files of a stopped stream."""
    return Cost(_FIXED_S + files_bytes / _COPIED_BYTES_PER_S, files_bytes, is_measured=False)
