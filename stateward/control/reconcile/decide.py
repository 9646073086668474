"""What to do next about a stream: a pure function of what should be, what is, and the time.

Nothing here reads a clock, a file or a process, so that every decision the control plane can take is
a row in a table of tests. `observe` gathers the input, `act` carries the answer out.

The control document is what should be. The `run_id` of its launch identifies a driver:

- no launch under the document's `run_id` yet: the driver of the launch before it drains, then Launch;
- desired stopped: the driver drains, then Done; desired suspended: it drains, then Suspended;
- held by a state operation: the driver drains, then Held, and nothing starts;
- a driver that has ended, or never started, while it should run: Launch with growing delays, then GiveUp;
  GiveUp at once if the next one would end in the same way; none for starts while the storage was away;
- a driver that is there but silent, or commits nothing: Kill, and the next observation finds it gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from stateward.contract.stream_control import Control, Failure
from stateward.contract.stream_control import Launch as Launched
from stateward.contract.stream_status import ENDED, LEAVING, Status
from stateward.control.health.diagnosis import remedy
from stateward.control.health.health import Finding, judge_health
from stateward.control.health.thresholds import Thresholds
from stateward.control.launchers.driver_exit import PLACED, Exit, Placement, Presence, failure_of_end


@dataclass(frozen=True)
class Observed:
    """What one look at a stream has found.

    Attributes:
        control: What should be; None when the stream was never deployed.
        status: What the driver last said; None when there is nothing, or nothing readable.
        driver: Where the driver of `control.launch` is.
        stalled_since: Since when the watcher has seen the same batch with records waiting, or it leaving.
        silent_since: Since when the watcher has seen the same status; None without a watch.
        blind_until, reading: When the documents could last not be read, or not soon; how long they took.
        last_words: What the log of a driver ends with that is gone and has reported nothing; may be empty.
        exit: How the process of a driver ended that is gone; None if that is not known.
        placement: How its driver gets its container, while it has reported nothing.
        status_errors: What in the document of the status is not what it should be, and counts as not known.
    """

    control: Control | None
    status: Status | None
    driver: Presence
    stalled_since: datetime | None = None
    silent_since: datetime | None = None
    blind_until: datetime | None = None
    reading: timedelta = timedelta()
    last_words: str = ""
    exit: Exit | None = None
    placement: Placement = PLACED
    status_errors: tuple[str, ...] = ()

    @property
    def own_status(self) -> Status | None:
        """The status, if the driver of the newest launch has written it."""
        launch = self.control.launch if self.control else None
        is_own = launch is not None and self.status is not None and self.status.run_id == launch.run_id
        return self.status if is_own else None


@dataclass(frozen=True)
class Action:
    """What to do, and why, as a sentence for a task log."""

    reason: str


@dataclass(frozen=True)
class Healthy(Action):
    """The driver is there and makes progress, or waits for Kafka or for an executor by itself.

    `warnings` say what is slow or large, and the likely cause: a restart would not help.
    """

    warnings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Wait(Action):
    """Nothing to do before something changes or `until` has come; then a start follows `failure`, if any."""

    until: datetime | None = None
    failure: Failure | None = None


@dataclass(frozen=True)
class Held(Wait):
    """A state operation keeps the stream stopped, and it is: wait for its end."""


@dataclass(frozen=True)
class Suspended(Wait):
    """The stream is to be at rest until someone resumes it, and is."""


@dataclass(frozen=True)
class Drain(Action):
    """The driver has been asked to leave and still may; look again."""


@dataclass(frozen=True)
class Launch(Action):
    """Start a driver. `failure`: why the one before it failed; None if this is no restart."""

    failure: Failure | None = None

    @property
    def after_failure(self) -> bool:
        """Whether this counts as a restart."""
        return self.failure is not None


@dataclass(frozen=True)
class Queued(Wait):
    """A driver is to be started, and waits for others that start on this host; see `start_queue`."""

    launch: Launch = field(default_factory=lambda: Launch(""))


@dataclass(frozen=True)
class Kill(Action):
    """End the driver of the newest launch: ask its process to leave, or end all of its processes."""

    how: Literal["terminate", "kill"] = "kill"


@dataclass(frozen=True)
class Done(Action):
    """The stream is to be stopped, and is."""


@dataclass(frozen=True)
class GiveUp(Action):
    """Too many failures, or one that no restart cures: a person has to look. `failure`: the last one."""

    failure: Failure | None = None


def decide(limits: Thresholds, seen: Observed, now: datetime) -> Action:
    """Decide what to do next.

    Args:
        limits: The stream's thresholds.
        seen: What is and what should be.
        now: The time of the observation, UTC.

    Returns:
        One action; deciding again on an unchanged observation gives the same one.
    """
    control = seen.control
    if control is None:
        return Done("the stream was never deployed")
    launch = control.launch
    present = _is_present(limits, seen, launch, now)
    rests = control.desired != "running"
    if present and (rests or control.launch_pending):
        return _drain(limits, seen, control, now)
    if rests or (control.hold is not None and not present):
        return _at_rest(control)
    if launch is None or control.launch_pending:
        return Launch(control.reason or "asked to run")
    if not present:
        return _relaunch(limits, seen, control, now)
    return _watch(limits, seen, launch.at, now)


def _at_rest(control: Control) -> Action:
    resume = f"trigger stream_{control.stream} with the action resume to start it"
    if control.desired == "suspended":
        return Suspended(f"{control.override or 'suspended, as its YAML declares'}; {resume}")
    if control.desired == "stopped" and control.declared == "stopped":
        return Done(f"stopped, as its YAML declares; {resume}")
    if control.desired == "stopped":
        return Done(str(control.override or f"stopped, as {control.requested_by} has asked"))
    return Held(f"the stream is {control.hold}, and starts again when that has ended")


def _is_present(limits: Thresholds, seen: Observed, launch: Launched | None, now: datetime) -> bool:
    if seen.driver is not Presence.ELSEWHERE:
        return seen.driver is Presence.ALIVE
    # A process on another host can only be judged by what it says; its lease protects if that is wrong.
    status = seen.own_status
    if status is not None:
        return status.state not in ENDED and _silence(seen, status, now) <= limits.max_status_age
    return launch is not None and now - launch.at <= limits.start_deadline


def _silence(seen: Observed, status: Status, now: datetime) -> timedelta:
    launch = seen.control.launch if seen.control else None
    is_remote = seen.driver is Presence.ELSEWHERE or (launch is not None and launch.application is not None)
    # A single look can only compare two clocks, and a driver is not heard through a storage that fails.
    shown = (is_remote and seen.silent_since) or status.updated_at
    return now - max(shown, seen.blind_until or shown)


def _drain(limits: Thresholds, seen: Observed, control: Control, now: datetime) -> Action:
    if waits_for := seen.placement.waits_for:
        return Kill(f"the driver has to stop, and waits for {waits_for}")
    waited = now - control.requested_at
    if waited <= limits.stop_deadline:
        return Drain(f"asked to drain {_seconds(waited)} ago by {control.requested_by}")
    late = f"has not drained within {_seconds(limits.stop_deadline)} of being asked to"
    if seen.driver is Presence.ELSEWHERE:
        return Wait(f"the driver on another host {late}; it ends itself soon, or falls silent")
    if waited <= limits.stop_deadline + limits.kill_grace:
        return Kill(f"the driver {late}", how="terminate")
    return Kill(f"the driver {late}, nor left after SIGTERM")


def _relaunch(limits: Thresholds, seen: Observed, control: Control, now: datetime) -> Action:
    status = seen.own_status
    asked = control.launch is not None and control.launch.end_reason
    lasted = status is not None and status.updated_at - status.started_at > limits.max_status_age
    if status is not None and status.state == "stopped" and lasted and not asked:
        # It was asked to leave from outside, as `stateward down` does, and had lasted until then.
        return Launch("the driver was drained from outside while it should run")
    failure = failure_of_end(control, status, seen.exit, seen.last_words)
    cause = failure.cause
    if status is not None and status.lasting_cause is not None:
        return GiveUp(f"{cause.rstrip('.')}. {remedy(control.stream, status.lasting_cause)}", failure)
    recent = [at for at in control.restarts if now - at <= limits.window]
    counted = [at for at in recent if seen.blind_until is None or at > seen.blind_until]
    if len(counted) >= limits.max_attempts:
        often = f"restarted {len(counted)} times within {_seconds(limits.window)} without lasting success"
        return GiveUp(f"{cause}; {often}", failure)
    due = _next_attempt(limits, recent)
    if due is not None and now < due:
        return Wait(f"{cause}; next attempt in {_seconds(due - now)}", until=due, failure=failure)
    return Launch(failure.reason_of_launch, failure)


def _next_attempt(limits: Thresholds, recent: list[datetime]) -> datetime | None:
    if not recent:
        return None
    # The exponent is bounded so that a generous `max_attempts` cannot overflow a timedelta.
    doubled: timedelta = limits.backoff * (1 << min(len(recent) - 1, 20))
    return max(recent) + min(doubled, limits.max_backoff)


def _watch(limits: Thresholds, seen: Observed, launched: datetime, now: datetime) -> Action:
    status = seen.own_status
    if status is None or status.state == "starting":
        return _watch_start(limits, seen, launched, now)
    silence = _silence(seen, status, now)
    if silence > limits.max_status_age:
        return Kill(
            f"the driver hangs: its status ({status.state}) is {_seconds(silence)} old, expected at most"
            f" {_seconds(limits.max_status_age)}"
        )
    if status.state in LEAVING:
        if seen.stalled_since is not None and now - seen.stalled_since > limits.stop_deadline:
            return Kill(f"the driver has been {status.state} for {_seconds(now - seen.stalled_since)}")
        return Wait(f"the driver is {status.state} and about to leave: {status.message}")
    if status.state == "waiting":
        warnings = judge_health(limits.measures, status, now)
        return Healthy(f"the driver waits by itself: {status.message}", warnings=warnings)
    return _watch_progress(limits, seen, status, now)


def _watch_start(limits: Thresholds, seen: Observed, launched: datetime, now: datetime) -> Action:
    status, other = seen.own_status, seen.status
    if waits_for := seen.placement.waits_for:
        return Wait(f"the driver waits for {waits_for}")
    # Beside other starts each step takes long: only a start that does not get on has failed.
    reached = (status.phase_at or status.started_at) if status else launched
    waited = now - max(reached, launched + seen.placement.took)
    if status is not None:
        # By the driver's own clock, which may be ahead of this one.
        waited = max(waited, status.updated_at - reached)
    step = f"phase {status.phase or 'first'}" if status else "nothing reported yet"
    if waited <= limits.start_deadline:
        return Wait(f"the driver is starting, launched {_seconds(now - launched)} ago: {step}")
    if status is None and other is not None and now - other.updated_at <= limits.max_status_age:
        # A driver that was refused may overwrite the status once; the right one will answer.
        return Wait(f"the status was written by run {other.run_id}, waiting for that of this run")
    return Kill(
        f"the driver's start has not got on for {_seconds(waited)} ({step}), expected the next step within"
        f" {_seconds(limits.start_deadline)}; launched {_seconds(now - launched)} ago"
    )


def _watch_progress(limits: Thresholds, seen: Observed, status: Status, now: datetime) -> Action:
    if seen.stalled_since is not None and now - seen.stalled_since > limits.max_commit_age:
        return Kill(
            f"no batch was committed for {_seconds(now - seen.stalled_since)} with records waiting, expected"
            f" one every {_seconds(limits.max_commit_age)}; last batch {status.batch_id}"
        )
    warnings = judge_health(limits.measures, status, now)
    return Healthy(f"running, batch {status.batch_id}", warnings=warnings)


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():.0f} s"
