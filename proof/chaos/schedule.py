"""The schedule of faults, drawn from a seed before the run. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Planned:
    """One planned fault.

    Attributes:
        at_s: When, in seconds from the start.
        kind: A name in `faults.FAULTS`.
        dice: From 0 to below 1; selects one of the targets, see `pick`.
    """

    at_s: float
    kind: str
    dice: float


def plan_faults(
    seed: int, duration_s: float, mean_gap_s: float, weights: Mapping[str, float]
) -> tuple[Planned, ...]:
    """Draw independent faults, one every `mean_gap_s` on average.

    Args:
        seed: The same seed gives the same faults; a longer duration continues a shorter one.
        duration_s: Duration of the faults, seconds.
        mean_gap_s: The mean time between two of them, in seconds.
        weights: Relative frequency of each kind.

    Returns:
        The faults, the earliest first.

    Raises:
        ValueError: There are no kinds, or the mean is not above zero.
    """
    kinds = [kind for kind, weight in weights.items() if weight > 0]
    if not kinds or mean_gap_s <= 0:
        raise ValueError(
            "chaos: expected a mean gap above 0 s and at least one kind of fault with a weight above 0,"
            f" found {mean_gap_s:g} s and {dict(weights)}"
        )
    rng = Random(f"chaos/{seed}")
    planned: list[Planned] = []
    at_s = rng.expovariate(1 / mean_gap_s)
    while at_s < duration_s:
        (kind,) = rng.choices(kinds, [weights[kind] for kind in kinds])
        planned.append(Planned(at_s, kind, rng.random()))
        at_s += rng.expovariate(1 / mean_gap_s)
    return tuple(planned)


def pick(candidates: Sequence[T], dice: float) -> T:
    """Take one of several; `dice` is from 0 to below 1."""
    return candidates[int(dice * len(candidates))]
