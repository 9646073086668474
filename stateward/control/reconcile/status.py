"""What should be and what is, as typed, read-only values; `documents` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from stateward.control.health.cause import Cause
from stateward.control.health.failure import Failure

Desired = Literal["running", "suspended", "stopped"]
DriverState = Literal["starting", "running", "waiting", "draining", "stopped", "refused", "failed"]

DESIRED: tuple[str, ...] = get_args(Desired)

ENDED: frozenset[DriverState] = frozenset({"stopped", "refused", "failed"})
"""States after which a driver's process leaves by itself."""

LEAVING: frozenset[DriverState] = ENDED | {"draining"}
"""States in which a driver no longer takes new batches."""


@dataclass(frozen=True)
class Launch:
    """One start of a driver.

    Attributes:
        run_id: Names it.
        at: When it was decided.
        host: The identity of the host that it is on.
        log: Its log file.
        pid: None from the decision to launch until the process is there.
        pid_started: Seconds since boot.
        failure: Why the driver before it failed; None of a launch that was asked for.
        end_reason: Why the control plane has ended it; empty while it has not.
    """

    run_id: str
    at: datetime
    host: str
    log: str
    pid: int | None = None
    pid_started: float | None = None
    failure: Failure | None = None
    end_reason: str = ""


@dataclass(frozen=True)
class Hold:
    """A state operation that keeps a stream stopped, whatever is desired, until it gives it free.

    Attributes:
        by: The DAG run of the operation, `<dag id>/<run id>`.
        why: What it does.
        at: Since when.
    """

    by: str
    why: str
    at: datetime

    def __str__(self) -> str:
        return f"held by {self.by} ({self.why}) since {self.at:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True)
class Override:
    """What a person has asked for in place of what the stream's YAML declares.

    Attributes:
        desired: What they want.
        author: Who.
        reason: Why, in their words; may be empty of a stop.
        at: Since when.
    """

    desired: Desired
    author: str
    reason: str
    at: datetime

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"{self.desired} by {self.author} since {self.at:%Y-%m-%d %H:%M:%S} UTC{why}"


@dataclass(frozen=True)
class Control:
    """What should be. See `control/<stream>.json`.

    `restarts` are the recent relaunches after a failure, which are forgotten when a person starts anew;
    `failures` counts all of them since `failures_since`. `declared` is what the stream's YAML wanted when it
    was last looked at, and `override` what a person wants instead.
    `release` is the code and YAML of the newest launch, and of those that follow without being asked for;
    None: those of the moment of the launch (`stateward.control.releases.release`).
    """

    stream: str
    desired: Desired
    run_id: str
    requested_at: datetime
    requested_by: str
    reason: str
    launch: Launch | None = None
    restarts: tuple[datetime, ...] = ()
    failures: int = 0
    failures_since: datetime | None = None
    hold: Hold | None = None
    declared: Desired = "running"
    override: Override | None = None
    release: str | None = None

    @property
    def launch_pending(self) -> bool:
        """Whether `run_id` has not been launched yet: a first start, or a restart that was asked for."""
        return self.launch is None or self.launch.run_id != self.run_id

    @property
    def last_failure(self) -> Failure | None:
        """The failure after which the newest driver was launched; None if that was asked for."""
        return self.launch.failure if self.launch else None

    @property
    def is_reason_of_failure(self) -> bool:
        """Whether `reason` is that of a launch after a failure: the request was made before it."""
        launch = self.launch
        return launch is not None and launch.failure is not None and self.requested_at <= launch.at


@dataclass(frozen=True)
class Status:
    """What is, as the driver last said it. See `status/<stream>.json`.

    `cause` is None while nothing is wrong, and of drivers of earlier releases.
    """

    stream: str
    run_id: str
    state: DriverState
    started_at: datetime
    updated_at: datetime
    message: str = ""
    epoch: int | None = None
    host: str | None = None
    pid: int | None = None
    pid_started: float | None = None
    python_pid: int | None = None
    phase: str | None = None
    phase_at: datetime | None = None
    batch_id: int | None = None
    last_batch_at: datetime | None = None
    watermark: datetime | None = None
    caught_up: bool | None = None
    lag_records: int | None = None
    lag_change_per_s: float | None = None
    behind_since: datetime | None = None
    event_time_behind_ms: int | None = None
    dead_share: float | None = None
    late_share: float | None = None
    batch_duration_ms: float | None = None
    input_rows: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    state_file_bytes: int | None = None
    state_commit_ms: float | None = None
    state_update_ms: float | None = None
    state_removal_ms: float | None = None
    memory_bytes: int | None = None
    counters: Mapping[str, int] | None = None
    cause: Cause | None = None

    @property
    def lasting_cause(self) -> Cause | None:
        """Why the driver has ended, if starting another one would end in the same way."""
        return self.cause if self.cause and self.cause.lasting and self.state in ENDED else None


@dataclass(frozen=True)
class Supervisor:
    """Which DAG run watches a stream, and when it last said so."""

    dag_run: str
    at: datetime
