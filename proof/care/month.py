"""Simulates the nightly care of a state, with the load and the time as arguments.

Only the stream is simulated: its load, and a state that grows with it. The advice and the policy are those of
the library.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from stateward.contract.state_care import CareRecord, Change
from stateward.control.care.policy import Decision, Rules, decide
from stateward.state.partitions.advice import Measured, advise
from stateward.state.partitions.bucket_places import partition_sizes
from stateward.state.verbs.advise import Workload, look_of

DAYS = 35
BEGIN = datetime(2026, 3, 1, 3, tzinfo=UTC)
RULES = Rules("auto", looks=3, max_pause=timedelta(hours=1))

_CORES, _BUCKETS = 2, 512
_BASE_RATE, _BASE_BYTES, _BASE_KEYS = 2_000.0, 900_000_000, 400_000
_WEEK = 7

Load = Callable[[float], float]
"""How many times the load of the first day a day has, by its number."""


@dataclass(frozen=True)
class Day:
    """One look, and what it led to.

    Attributes:
        at: When.
        load: How many times the load of the first day.
        state_bytes: Size of the state.
        partitions: Number of partitions after the look.
        decision: What was decided.
    """

    at: datetime
    load: float
    state_bytes: int
    partitions: int
    decision: Decision

    @property
    def has_moved(self) -> bool:
        """Whether the number of partitions was changed."""
        return self.decision.step == "act"


def eightfold(day: float) -> float:
    """The load doubles every two days to eight times, stays for six days, and halves every two days."""
    steps = ((4, 1.0), (6, 2.0), (8, 4.0), (16, 8.0), (18, 4.0), (20, 2.0))
    return next((load for until, load in steps if day < until), 1.0)


def noisy(load: Load, seed: int, noise: float = 0.15) -> Load:
    """A load with a quieter weekend, and noise from day to day."""

    def changed(day: float) -> float:
        chance = random.Random(f"{seed}/{int(day)}").uniform(1 - noise, 1 + noise)
        return load(day) * chance * (0.7 if int(day) % _WEEK in (5, 6) else 1.0)

    return changed


def simulate(load: Load, days: int, rules: Rules = RULES) -> list[Day]:
    """Look at the state once a night, and do what the policy lets happen.

    Args:
        load: The load by day.
        days: Number of days.
        rules: The policy.
    """
    return list(_nights(load, days, rules))


def _nights(load: Load, days: int, rules: Rules) -> Iterator[Day]:
    record, partitions = CareRecord(stream="simulated"), 2
    for day in range(days):
        now = BEGIN + timedelta(days=day)
        workload = _workload(load, day, partitions)
        look = look_of(workload, advise(workload.measured), now)
        record = replace(record, looks=(*record.looks, look))
        decision = decide(rules, record, now)
        if decision.step == "act":
            done = decision.proposals[0]
            partitions = done.after
            change = Change(
                at=now,
                kind=done.kind,
                before=done.before,
                after=done.after,
                outcome="done",
                pause_s=done.cost.pause_s,
                files_bytes=look.files_bytes,
                state_bytes=look.state_bytes,
            )
            record = replace(record, changes=(*record.changes, change))
        yield Day(now, load(day), look.state_bytes, partitions, decision)


def _workload(load: Load, day: int, partitions: int) -> Workload:
    week = [load(earlier) for earlier in range(max(0, day - _WEEK + 1), day + 1)]
    size = int(_BASE_BYTES * load(day))
    by_bucket = (size // _BUCKETS,) * _BUCKETS
    measured = Measured(
        partitions=partitions,
        state_bytes=size,
        keys=int(_BASE_KEYS * load(day)),
        records_per_s=_BASE_RATE * max(week),
        cores=_CORES,
        buckets=_BUCKETS,
        partition_bytes=tuple(partition_sizes("event", by_bucket, partitions)),
        bucket_bytes=by_bucket,
        lane="event",
    )
    return Workload(measured, _BASE_RATE * load(day), 2 * size, 1, ())
