"""The rate over time: a daily rhythm scaled to the span, and bursts."""

from __future__ import annotations

import math
from itertools import accumulate
from random import Random

from proof.traffic.profiles import Profile


def plan_of(profile: Profile, rng: Random, slices: int, quota: int) -> list[int]:
    """Return how many records are to have been made by the end of each slice; the last is `quota`."""
    weights = [
        1 - profile.swing * math.cos(2 * math.pi * (number + 0.5) / slices) for number in range(slices)
    ]
    for _ in range(min(profile.bursts, slices)):
        weights[rng.randrange(slices)] *= profile.burst_factor
    total = math.fsum(weights)
    return [*(round(quota * made / total) for made in list(accumulate(weights))[:-1]), quota]


def zipf_bounds(keys: int, skew: float) -> list[float]:
    """Return the cumulative weights of `keys` keys, each `1 / (rank + offset) ** skew`; the last is 1.

    The offset keeps the first from having more than a few hundredths: beyond `max_held_events` of one key a
    stream gives up its promise, and no outcome could be known.
    """
    offset = 10
    weights = list(accumulate((rank + offset) ** -skew for rank in range(keys)))
    return [weight / weights[-1] for weight in weights]
