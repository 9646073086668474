"""Profiles of traffic, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """A profile of traffic. Shares are between 0 and 1.

    Attributes:
        name: Its name on the command line.
        description: For a person.
        keys: Users, accounts, devices or sources that come again and again, in each topic.
        skew: Exponent of their Zipf-like distribution; 0 treats all alike.
        swing: How far the daily rhythm departs from its mean, 0 to 1; one day is scaled to the whole span.
        bursts: How many there are in the span.
        burst_factor: How much more comes in one.
        stories: Share of starts that are a story with a key of its own.
        stragglers: Share of events that arrive long after their time.
        duplicates: Share of events that are sent twice.
        malformed: Share of records that are no events.
        oversized: Records per topic that are larger than a stream takes: a megabyte each.
        late: Events of the second phase, which are too late, as a share of those of the first.
    """

    name: str
    description: str
    keys: int
    skew: float
    swing: float
    bursts: int
    burst_factor: float
    stories: float
    stragglers: float
    duplicates: float
    malformed: float
    oversized: int
    late: float


_ALL = (
    Profile(
        name="quiet",
        description="a small site at night: hardly any disorder",
        keys=200,
        skew=0.8,
        swing=0.2,
        bursts=0,
        burst_factor=1,
        stories=0.05,
        stragglers=0.02,
        duplicates=0.005,
        malformed=0.002,
        oversized=0,
        late=0.001,
    ),
    Profile(
        name="daily",
        description="an ordinary day: a rhythm, two bursts, a little of everything that goes wrong",
        keys=2_000,
        skew=1.0,
        swing=0.6,
        bursts=2,
        burst_factor=3,
        stories=0.1,
        stragglers=0.05,
        duplicates=0.01,
        malformed=0.005,
        oversized=1,
        late=0.002,
    ),
    Profile(
        name="storm",
        description="a bad day: bursts, much disorder, attacks and broken producers",
        keys=20_000,
        skew=1.1,
        swing=0.8,
        bursts=5,
        burst_factor=8,
        stories=0.25,
        stragglers=0.2,
        duplicates=0.05,
        malformed=0.03,
        oversized=2,
        late=0.01,
    ),
)
PROFILES = {profile.name: profile for profile in _ALL}


class UnknownProfileError(ValueError):
    """There is no profile of that name."""


def profile_named(name: str) -> Profile:
    """Return a profile.

    Raises:
        UnknownProfileError: There is none of that name.
    """
    if name not in PROFILES:
        raise UnknownProfileError(f"--profile: expected one of {', '.join(PROFILES)}, found {name!r}")
    return PROFILES[name]
