"""Observations of a stream over time, for tests of incidents and pages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from stateward.alerts.incident import IncidentState, Message, Observation, next_incidents
from stateward.contract.stream_control import Control, Failure
from stateward.contract.stream_control import Launch as Launched
from stateward.contract.stream_status import Status
from stateward.control.health.health import Finding
from stateward.control.launchers.driver_exit import Presence
from stateward.control.reconcile.decide import (
    Action,
    Done,
    Drain,
    GiveUp,
    Healthy,
    Held,
    Kill,
    Launch,
    Observed,
    Suspended,
    Wait,
)

T0 = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
RESOLVE_AFTER = timedelta(seconds=300)
NEW = IncidentState()

SLOW = Finding("warn", "lag", 2000, 1000, "2,000 records behind (limit 1,000)", "a backlog")
BAD = Finding("critical", "lag", 9000, 5000, "9,000 records behind (limit 5,000)", "a backlog")

GONE = Failure("gone", "driver process gone")
BOOM = Failure("reported", "driver failed: boom")

# What is seen at a moment: what `decide` says, how many failures are on record, and what the driver says.
Sight = tuple[Action, int, Status | None]


def after(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def runs(failures: int = 0, *findings: Finding, progress: bool = True) -> Sight:
    """The driver runs; `progress`: it has just committed a batch."""
    status = Status("s", "r1", "running", T0, T0, batch_id=4, last_batch_at=None, caught_up=False)
    return (
        Healthy("running, batch 4", findings),
        failures,
        replace(status, last_batch_at=T0) if progress else status,
    )


def waits_for_kafka(failures: int = 0) -> Sight:
    return Healthy("the driver waits by itself"), failures, Status("s", "r1", "waiting", T0, T0)


def starts(failures: int = 0) -> Sight:
    return Wait("the driver is starting"), failures, None


def gone(failures: int = 0) -> Sight:
    return Launch("crash: driver process gone", GONE), failures, None


def later(failures: int) -> Sight:
    return Wait("driver failed: boom; next attempt in 4 s", until=T0, failure=BOOM), failures, None


def hangs(failures: int = 0) -> Sight:
    return Kill("the driver hangs: its status is 20 s old"), failures, None


def given_up(failures: int = 0) -> Sight:
    return GiveUp("driver failed: boom; restarted 3 times", BOOM), failures, None


def held(failures: int = 0) -> Sight:
    return Held("the stream is held"), failures, None


STOPPED: Sight = (Done("stopped, as someone has asked"), 0, None)
SUSPENDED: Sight = (Suspended("suspended by someone"), 0, None)
LEAVES: Sight = (Drain("asked to drain"), 0, None)


def control(failures: int) -> Control:
    return Control("s", "running", "r1", T0, "someone", "crash: driver process gone", failures=failures)


def look(at: datetime, sight: Sight) -> Observation:
    action, failures, status = sight
    launched = replace(control(failures), launch=None if status is None else launch_of(status))
    if status is not None and status.last_batch_at is not None:
        status = replace(status, last_batch_at=at)
    if isinstance(action, Kill):
        launched = replace(launched, launch=launch_of(Status("s", "r1", "running", T0, T0)))
    return Observation("s", action, Observed(launched, status, Presence.ALIVE), at)


def launch_of(status: Status) -> Launched:
    return Launched(run_id=status.run_id, at=T0, host="h", log="/l", failure=GONE)


def play(
    sights: Sequence[tuple[float, Sight]], memory: IncidentState = NEW
) -> tuple[IncidentState, list[Message]]:
    told: list[Message] = []
    for seconds, sight in sights:
        memory, messages = next_incidents(memory, look(after(seconds), sight), RESOLVE_AFTER)
        told.extend(messages)
    return memory, told
