"""Recent failures and restarts of a stream. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise
from typing import Literal

from stateward.contract.stream_control import Control, Failure
from stateward.pages.streams.history import Sample

Kind = Literal["failed", "refused", "crashed", "waited", "restarted"]

_ENDED_BADLY: dict[str, Kind] = {"failed": "failed", "refused": "refused"}
_MOST = 20


@dataclass(frozen=True)
class Incident:
    """A failure or restart.

    Attributes:
        at: When; for a killed driver the start of the next one.
        kind: `failed` and `refused`: reported by the driver. `crashed`: not reported. `waited`: Kafka was
            unreachable. `restarted`: requested.
        cause: The recorded cause; may be empty.
        over_at: When the stream ran again; None while it does not, or if unknown.
    """

    at: datetime
    kind: Kind
    cause: str
    over_at: datetime | None = None

    @property
    def is_failure(self) -> bool:
        """Whether it was not requested."""
        return self.kind != "restarted"


@dataclass(frozen=True)
class Repeated:
    """One incident, or consecutive ones of the same kind and cause."""

    last: Incident
    times: int
    first_at: datetime


def incidents(known: Sequence[Sample], control: Control | None) -> tuple[Incident, ...]:
    """Combine the records of drivers and of the control plane, the newest first.

    Args:
        known: The history and the current sample, the oldest first.
        control: The control document. It also has launches whose drivers never wrote a sample.
    """
    runs = [list(run) for _, run in groupby(known, key=lambda sample: sample.run_id)]
    found = [*_waits(known), *_ends(runs), *_silent_restarts(runs, control)]
    return tuple(sorted(found, key=lambda incident: incident.at, reverse=True)[:_MOST])


def repeated(found: Sequence[Incident]) -> tuple[Repeated, ...]:
    """Group consecutive incidents of the same kind and cause.

    Args:
        found: The newest first.
    """
    alike = (list(same) for _, same in groupby(found, key=lambda one: (one.kind, one.cause)))
    return tuple(Repeated(same[0], len(same), same[-1].at) for same in alike)


def _waits(known: Sequence[Sample]) -> Iterator[Incident]:
    stretches = [list(stretch) for _, stretch in groupby(known, key=lambda one: (one.run_id, one.state))]
    for number, stretch in enumerate(stretches):
        if stretch[0].state == "waiting":
            after = stretches[number + 1][0] if number + 1 < len(stretches) else None
            yield Incident(stretch[0].at, "waited", stretch[0].message, after.at if after else None)


def _ends(runs: Sequence[Sequence[Sample]]) -> Iterator[Incident]:
    if runs and (failure := runs[0][0].failure):
        yield _crash(runs[0][0].at, failure)
    for run, after in pairwise([*runs, []]):
        last = run[-1]
        if kind := _ENDED_BADLY.get(last.state):
            yield Incident(last.at, kind, last.message, after[0].at if after else None)
        elif after and (failure := after[0].failure):
            yield _crash(after[0].at, failure)
        elif after:
            yield Incident(after[0].at, "restarted", after[0].launched, after[0].at)


def _crash(at: datetime, failure: Failure) -> Incident:
    return Incident(at, "crashed", failure.cause, at)


def _silent_restarts(runs: Sequence[Sequence[Sample]], control: Control | None) -> Iterator[Incident]:
    """Return restarts whose driver wrote no sample before the next restart."""
    restarts = sorted(control.restarts) if control else []
    begins = [run[0].at for run in runs]
    for at, until in pairwise([*restarts, None]):
        if at is None or any(at <= begin and (until is None or begin < until) for begin in begins):
            continue
        failure = control.last_failure if control and until is None else None
        yield Incident(at, "crashed", failure.cause if failure else "")
