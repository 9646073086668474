"""The incidents of a stream, and one message for each of their transitions. Pure.

A stream has at most one open incident of each topic:

- `driver`: the driver failed, was killed for hanging, or was given up. All its restarts are one incident.
- `critical`: a measure is above its critical limit. Not opened while a `driver` incident is open, because a
  backlog is expected after it.
- `warn`: a measure is above its warning limit, and no measure is critical.

An incident is resolved when the stream has been healthy for a while, so that a problem that comes and goes is
one incident. Stopping or suspending the stream resolves it at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from msgspec import structs

from stateward.alerts.incident_text import Words, sentence, words_of_driver, words_of_finding
from stateward.contract.stream_control import Failure
from stateward.control.health.health import Finding, Level
from stateward.control.reconcile.decide import (
    Action,
    Done,
    GiveUp,
    Healthy,
    Kill,
    Launch,
    Observed,
    Queued,
    Suspended,
    Wait,
)

# Those of quality are a table's (`table_incident`); those of state care are over when they are reported.
Topic = Literal[
    "driver", "critical", "warn", "quality", "quality_warn", "state_care", "state_care_failed"
]  # fmt: skip
Kind = Literal["opened", "escalated", "resolved", "acted"]


@dataclass(frozen=True)
class Incident:
    """An incident.

    Attributes:
        id: Unique: stream, topic and time.
        stream: The stream's name.
        topic: See above.
        words: Its description.
        since: When it was opened.
        bad_at: When the stream was last seen unhealthy.
        restarts: Restarts of the driver during the incident.
        gave_up: Whether the supervisor has given up.
        well_since: Start of the current healthy period, if there is one.
        well_at: When the stream was last seen healthy.
        until: When it was resolved; None while it is open.
        ended: Why it was resolved, a sentence.
        table: The table that it is about; empty for the stream itself.
    """

    id: str
    stream: str
    topic: Topic
    words: Words
    since: datetime
    bad_at: datetime
    restarts: int = 0
    gave_up: bool = False
    well_since: datetime | None = None
    well_at: datetime | None = None
    until: datetime | None = None
    ended: str = ""
    table: str = ""

    @property
    def level(self) -> Level:
        """`critical`, for all notifiers, or `warn`, for those with the level `warn`."""
        return "warn" if self.topic in ("warn", "quality_warn", "state_care") else "critical"


@dataclass(frozen=True)
class Message:
    """One transition of an incident, sent once."""

    kind: Kind
    at: datetime
    incident: Incident

    @property
    def id(self) -> str:
        """Unique, so that a receiver can recognise a duplicate."""
        return f"{self.incident.id}/{self.kind}"


@dataclass(frozen=True)
class IncidentState:
    """The state between two observations.

    Attributes:
        open: Open incidents.
        failures: The failure count of the control document; None before the first observation.
    """

    open: tuple[Incident, ...] = ()
    failures: int | None = None

    def of(self, topic: Topic) -> Incident | None:
        """The open incident of a topic."""
        return next((one for one in self.open if one.topic == topic), None)


@dataclass(frozen=True)
class Observation:
    """One observation of a stream, and the action that `decide` chose for it."""

    stream: str
    action: Action
    seen: Observed
    now: datetime


def next_incidents(
    memory: IncidentState, observation: Observation, resolve_after: timedelta
) -> tuple[IncidentState, tuple[Message, ...]]:
    """Compute the state after one observation.

    Args:
        memory: The state that the last call returned. The first observation ignores earlier failures.
        observation: The observation.
        resolve_after: How long a stream has to be healthy before an incident is resolved. The period starts
            again after a longer gap between observations.

    Returns:
        The next state, and the messages to send, in order.
    """
    control = observation.seen.control
    failures = memory.failures if control is None else control.failures
    if isinstance(observation.action, Done | Suspended):
        over = [
            _resolved(one, observation.now, observation.now, sentence(observation.action.reason))
            for one in memory.open
        ]
        return IncidentState((), failures), tuple(Message("resolved", observation.now, one) for one in over)
    transitions = [_driver(memory, observation, resolve_after)]
    for topic in ("critical", "warn"):
        # A crash causes a backlog, and a critical measure is also above its warning limit: one message each.
        quiet = any(transition.incident is not None for transition in transitions)
        transitions.append(_measures(topic, memory, observation, resolve_after, may_open=not quiet))
    kept = tuple(transition.incident for transition in transitions if transition.incident is not None)
    return IncidentState(kept, failures), tuple(
        message for transition in transitions for message in transition.messages
    )


@dataclass(frozen=True)
class _Transition:
    """The next open incident of one topic, if any, and the messages to send."""

    incident: Incident | None = None
    messages: tuple[Message, ...] = ()


def _driver(memory: IncidentState, observation: Observation, resolve_after: timedelta) -> _Transition:
    known = memory.of("driver")
    control = observation.seen.control
    count = control.failures if control else 0
    restarts = max(0, count - memory.failures) if memory.failures is not None else 0
    failure = _failure_of(observation, restarts)
    if failure is None:
        return _resolve_if_healthy(
            known, observation, resolve_after, well=known is not None and _makes_progress(known, observation)
        )
    gave_up = isinstance(observation.action, GiveUp)
    words = words_of_driver(observation.stream, failure, gave_up=gave_up)
    if known is None:
        made = replace(_new("driver", observation, words), restarts=restarts, gave_up=gave_up)
        return _Transition(made, (Message("opened", observation.now, made),))
    worse = gave_up and not known.gave_up
    now = replace(
        known,
        words=words if worse else known.words,
        bad_at=observation.now,
        restarts=known.restarts + restarts,
        gave_up=known.gave_up or gave_up,
        well_since=None,
    )
    return _Transition(now, (Message("escalated", observation.now, now),) if worse else ())


def _failure_of(observation: Observation, restarts: int) -> Failure | None:
    """The driver's failure; None when it has not failed."""
    action, control = observation.action, observation.seen.control
    if isinstance(action, Queued):
        action = action.launch
    if isinstance(action, GiveUp):
        # The reason also says why no other driver is started.
        return structs.replace(action.failure or _UNKNOWN, cause=action.reason)
    # A driver that overruns its stop deadline is killed too, but on request.
    asked = control is None or control.desired != "running" or control.launch_pending
    if isinstance(action, Kill) and not asked:
        return Failure("hung", action.reason)
    if isinstance(action, Launch | Wait) and action.failure is not None:
        return action.failure
    if restarts and control is not None:
        return control.last_failure or _UNKNOWN
    return None


_UNKNOWN = Failure("reported", "the driver had failed, and was started again")


def _makes_progress(incident: Incident, observation: Observation) -> bool:
    """Whether the running driver has made progress since, or has no backlog."""
    status = observation.seen.own_status
    if not _runs(observation) or status is None:
        return False
    since = status.last_batch_at is not None and status.last_batch_at >= incident.bad_at
    return since or bool(status.caught_up)


def _runs(observation: Observation) -> bool:
    status = observation.seen.own_status
    return isinstance(observation.action, Healthy) and status is not None and status.state == "running"


def _measures(
    topic: Literal["critical", "warn"],
    memory: IncidentState,
    observation: Observation,
    resolve_after: timedelta,
    may_open: bool,
) -> _Transition:
    known = memory.of(topic)
    found = observation.action.warnings if isinstance(observation.action, Healthy) else ()
    above = _above(topic, found)
    if known is not None:
        return _resolve_if_healthy(known, observation, resolve_after, well=_runs(observation) and not above)
    if not above or not may_open:
        return _Transition()
    made = _new(topic, observation, words_of_finding(observation.stream, above[0]))
    return _Transition(made, (Message("opened", observation.now, made),))


def _above(topic: Literal["critical", "warn"], found: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(one for one in found if topic == "warn" or one.level == "critical")


def _resolve_if_healthy(
    known: Incident | None, observation: Observation, resolve_after: timedelta, well: bool
) -> _Transition:
    if known is None:
        return _Transition()
    if not well:
        return _Transition(replace(known, well_since=None))
    is_gap = known.well_at is None or observation.now - known.well_at > resolve_after
    since = observation.now if is_gap or known.well_since is None else known.well_since
    if observation.now - since < resolve_after:
        return _Transition(replace(known, well_since=since, well_at=observation.now))
    minutes = f"{(observation.now - since).total_seconds():.0f} s"
    over = _resolved(
        known, since, observation.now, f"The stream has been well for {minutes}: {observation.action.reason}."
    )
    return _Transition(None, (Message("resolved", observation.now, over),))


def _resolved(incident: Incident, until: datetime, now: datetime, ended: str) -> Incident:
    return replace(incident, well_since=incident.well_since or now, until=until, ended=ended)


def _new(topic: Topic, observation: Observation, words: Words) -> Incident:
    name = f"{observation.stream}-{topic}-{observation.now:%Y%m%dT%H%M%S%f}"
    return Incident(name, observation.stream, topic, words, since=observation.now, bad_at=observation.now)
