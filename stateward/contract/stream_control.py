"""The control document, `control/<stream>.json`: what should be; and which DAG run supervises the stream.

The last release writes sentences alone: `crash: ` before the cause of a launch, `ended: ` before why the
control plane has ended a driver. Both are written beside the fields, and read where these are missing; only
this module knows of that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from msgspec import Struct

from stateward.contract.reading import InvalidDocumentError, Time, read_as, read_tolerantly

Desired = Literal["running", "suspended", "stopped"]
ClusterKind = Literal["yarn", "kubernetes"]
FailureKind = Literal[
    "reported", "killed", "gone", "not_started", "hung", "ended", "out_of_memory", "evicted"
]

GONE = "driver process gone"
"""How the cause begins when the driver has not reported itself why it ended."""

SILENT = f"{GONE} before it reported anything"
"""How the cause begins when the driver has written no status."""

_CRASH, _ENDED = "crash: ", "ended: "
_SIGNAL = re.compile(r"killed by (SIG\w+)")


class Failure(Struct, frozen=True):
    """Why a driver has ended, or has to be ended, while it should run.

    Attributes:
        kind: `reported`: it has reported why. `killed`: a signal has killed it. `gone`: its process is gone,
            for an unknown reason. `not_started`: it ended before it reported anything, and its log has the
            reason. `hung`: it is there and makes no progress. `ended`: the control plane has ended it.
            `out_of_memory`: the cluster has ended it, as it took more memory than its container has.
            `evicted`: the cluster has ended it for another reason, or a person by the cluster's commands.
        cause: In a sentence.
        signal: Which one killed it, such as `SIGKILL`.
    """

    kind: FailureKind
    cause: str
    signal: str | None = None

    @property
    def reason_of_launch(self) -> str:
        """The reason of a launch after it."""
        return f"{_CRASH}{self.cause}"


class Application(Struct, frozen=True):
    """A driver that a cluster runs: `spark-submit` in cluster mode.

    Attributes:
        kind: The cluster's kind.
        cluster: The address of YARN's ResourceManager, or of Kubernetes' API server.
        id: YARN's application id, or the name of the driver's pod; empty until the cluster has accepted it.
            The cluster keeps the launch's run id as a tag or label, by which it is found meanwhile.
        namespace: The pod's; empty on YARN.
    """

    kind: ClusterKind
    cluster: str
    id: str = ""
    namespace: str = ""

    @property
    def page(self) -> str:
        """The address at which YARN shows it, with its logs; empty without an id, and on Kubernetes."""
        return f"{self.cluster}/cluster/app/{self.id}" if self.kind == "yarn" and self.id else ""

    @property
    def spark_ui(self) -> str:
        """The address of Spark's UI behind YARN's proxy, the only way to it; empty like `page`."""
        return f"{self.cluster}/proxy/{self.id}" if self.kind == "yarn" and self.id else ""


class Launch(Struct, frozen=True):
    """One start of a driver.

    Attributes:
        run_id: Names it.
        at: When it was decided.
        host: The identity of the host that has started it; the driver's own host without `application`.
        log: Its log file; that of `spark-submit` with `application`.
        pid: None from the decision to launch until the process is there, and with `application`.
        pid_started: Seconds since boot.
        application: What the cluster runs; None for a process of `host`.
        failure: Why the driver before it failed; None for a launch that was requested.
        end_reason: Why the control plane has ended it; empty while it has not.
    """

    run_id: str
    at: Time
    host: str
    log: str
    pid: int | None = None
    pid_started: float | None = None
    failure: Failure | None = None
    end_reason: str = ""
    application: Application | None = None

    @property
    def log_address(self) -> str:
        """Where people read its driver's log."""
        return (self.application.page if self.application else "") or self.log


class Hold(Struct, frozen=True):
    """A state operation that keeps a stream stopped, whatever is desired, until it releases the hold.

    Attributes:
        by: The DAG run of the operation, `<dag id>/<run id>`.
        why: What it does.
        at: Since when.
    """

    by: str
    why: str
    at: Time

    def __str__(self) -> str:
        return f"held by {self.by} ({self.why}) since {self.at:%Y-%m-%d %H:%M:%S} UTC"


class Override(Struct, frozen=True):
    """What a person has requested in place of what the stream's YAML declares.

    Attributes:
        desired: What they want.
        author: The person.
        reason: Why; may be empty for a stop.
        at: Since when.
    """

    desired: Desired
    author: str
    reason: str
    at: Time

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"{self.desired} by {self.author} since {self.at:%Y-%m-%d %H:%M:%S} UTC{why}"


class Control(Struct, frozen=True):
    """What should be.

    Attributes:
        run_id: Names the launch that should run. A driver of another one drains and leaves.
        launch: The newest launch.
        restarts: The recent relaunches after a failure, which are forgotten when a person starts the stream
            again.
        failures: All of them since `failures_since`.
        declared: What the stream's YAML declared when it was last read.
        override: What a person wants instead.
        release: The code and YAML of the newest launch, and of those that follow without a request; None: the
            current ones at the launch (`stateward.control.releases.release`).
    """

    stream: str
    desired: Desired
    run_id: str
    requested_at: Time
    requested_by: str = ""
    reason: str = ""
    launch: Launch | None = None
    restarts: tuple[Time, ...] = ()
    failures: int = 0
    failures_since: Time | None = None
    hold: Hold | None = None
    declared: Desired = "running"
    override: Override | None = None
    release: str | None = None
    version: int = 1

    @property
    def launch_pending(self) -> bool:
        """Whether `run_id` has not been launched yet: a first start, or a restart that was requested."""
        return self.launch is None or self.launch.run_id != self.run_id

    @property
    def last_failure(self) -> Failure | None:
        """The failure after which the newest driver was launched; None if that was requested."""
        return self.launch.failure if self.launch else None

    @property
    def is_reason_of_failure(self) -> bool:
        """Whether `reason` is that of a launch after a failure: the request was made before it."""
        launch = self.launch
        return launch is not None and launch.failure is not None and self.requested_at <= launch.at


class DriverOrders(Struct, frozen=True):
    """The part of the control document that a driver reads. It obeys a stop whatever else is in there."""

    desired: str = "running"
    run_id: str = ""
    requested_by: str = ""
    reason: str = ""
    launch: Launch | None = None


class Supervisor(Struct, frozen=True):
    """Which DAG run supervises a stream, and its last heartbeat: `control/<stream>.supervisor.json`."""

    dag_run: str
    at: Time
    stream: str = ""
    version: int = 1


def control_from(document: Mapping[str, Any], origin: str = "control document") -> Control:
    """Read a control document of this release, the last one or the next one.

    Raises:
        InvalidDocumentError: A field is missing or is not what it should be.
    """
    return read_as(Control, _upgraded(document), origin)


def orders_in(document: Mapping[str, Any], origin: str) -> DriverOrders:
    """Read of a control document what a driver needs; what cannot be read has its default."""
    return read_tolerantly(DriverOrders, _upgraded(document), origin)[0]


def _upgraded(document: Mapping[str, Any]) -> Mapping[str, Any]:
    launch, reason = document.get("launch"), document.get("reason")
    if isinstance(launch, Mapping) and isinstance(reason, str):
        ended = reason.removeprefix(_ENDED) if reason.startswith(_ENDED) else ""
        upgraded = {"end_reason": ended, **launch, "failure": _failure_field(launch, reason)}
        return {**document, "launch": upgraded}
    return document


def reason_of_end(cause: str) -> str:
    """Return the reason in the document of a stream whose driver the control plane ends."""
    return f"{_ENDED}{cause}"


def failure_of(document: Mapping[str, Any], reason: str) -> Failure | None:
    """Read the field `failure` of a line of the history.

    Args:
        document: The line.
        reason: Why the driver was launched, in which the last release has it.

    Raises:
        InvalidDocumentError: It is no failure.
    """
    found = _failure_field(document, reason)
    if found is None:
        return None
    if not isinstance(found, Mapping):
        raise InvalidDocumentError(f"failure: expected an object, found {found!r}")
    return read_as(Failure, found, "failure")


def _failure_field(document: Mapping[str, Any], reason: str) -> object:
    if "failure" not in document:
        return _failure_of_sentence(reason)
    found = document["failure"]
    # A newer release may know more kinds.
    if isinstance(found, Mapping) and found.get("kind") not in get_args(FailureKind):
        return {**found, "kind": "reported"}
    return found


def _failure_of_sentence(reason: str) -> dict[str, str] | None:
    if not reason.startswith(_CRASH):
        return None
    cause = reason.removeprefix(_CRASH)
    if by := _SIGNAL.search(cause):
        return {"kind": "killed", "cause": cause, "signal": by[1]}
    if cause.startswith(f"{SILENT}: "):
        return {"kind": "not_started", "cause": cause}
    return {"kind": "gone" if cause.startswith(GONE) else "reported", "cause": cause}
