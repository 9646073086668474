"""When a person is told about a stream: incidents, and the one message at each turn of them. Pure.

A stream has at most one open incident of each topic:

- `driver`: it failed, was killed for hanging, or was given up. However often it is restarted: one incident.
- `critical`: a measure is above its critical limit. Not opened while one of the driver is open, after which
  a backlog is to be expected.
- `warn`: a measure is above its limit of warning, and none is critical.

An incident is over once the stream has been well for a while, so that what comes and goes is one incident;
and at once when somebody stops or suspends the stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from stateward.alerts.incident_text import Words, sentence, words_of_driver, words_of_finding
from stateward.control.health.failure import Failure
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

# The last two are those of a stream's tables: `table_incident`.
Topic = Literal["driver", "critical", "warn", "quality", "quality_warn"]
Kind = Literal["opened", "escalated", "resolved"]


@dataclass(frozen=True)
class Incident:
    """One of them.

    Attributes:
        id: Names it for ever: stream, topic and time.
        stream: Whose it is.
        topic: See above.
        words: What is said of it.
        since: When it was opened.
        bad_at: When the stream was last seen to be unwell.
        restarts: How often the driver was started again in it.
        gave_up: Whether the supervisor has.
        well_since: Since when the stream has been well, if it is.
        well_at: When it was last seen to be.
        until: Since when it is over; None while it is open.
        ended: Why it is over, in a sentence.
        table: Which table of the stream it is about; empty: the stream itself.
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
        """For whom it is: `critical` for everybody, `warn` for those who have asked for warnings."""
        return "warn" if self.topic in ("warn", "quality_warn") else "critical"


@dataclass(frozen=True)
class Message:
    """One turn of an incident, told once."""

    kind: Kind
    at: datetime
    incident: Incident

    @property
    def id(self) -> str:
        """Names it for ever, so that a receiver can tell when it comes twice."""
        return f"{self.incident.id}/{self.kind}"


@dataclass(frozen=True)
class IncidentState:
    """What has to be known of the past.

    Attributes:
        open: Incidents that are not over.
        failures: How many the control document had counted; None before the first look.
    """

    open: tuple[Incident, ...] = ()
    failures: int | None = None

    def of(self, topic: Topic) -> Incident | None:
        """The open incident of a topic."""
        return next((one for one in self.open if one.topic == topic), None)


@dataclass(frozen=True)
class Observation:
    """One look at a stream, and what `decide` made of it."""

    stream: str
    action: Action
    seen: Observed
    now: datetime


def next_incidents(
    memory: IncidentState, look: Observation, resolve_after: timedelta
) -> tuple[IncidentState, tuple[Message, ...]]:
    """Take in one look.

    Args:
        memory: What the last call has returned. A first look takes earlier failures as known.
        look: What was found.
        resolve_after: How long a stream has to be well before an incident is over. When nobody has looked for
            longer than that, it begins anew.

    Returns:
        What to remember, and what is to be told, in this order.
    """
    control = look.seen.control
    failures = memory.failures if control is None else control.failures
    if isinstance(look.action, Done | Suspended):
        over = [_over(one, look.now, look.now, sentence(look.action.reason)) for one in memory.open]
        return IncidentState((), failures), tuple(Message("resolved", look.now, one) for one in over)
    turns = [_driver(memory, look, resolve_after)]
    for topic in ("critical", "warn"):
        # A crash brings a backlog, and what is critical is also worth a warning: that is said once.
        quiet = any(turn.incident is not None for turn in turns)
        turns.append(_measures(topic, memory, look, resolve_after, may_open=not quiet))
    kept = tuple(turn.incident for turn in turns if turn.incident is not None)
    return IncidentState(kept, failures), tuple(message for turn in turns for message in turn.messages)


@dataclass(frozen=True)
class _Turn:
    """What becomes of one topic: its incident, if one is open, and what is told."""

    incident: Incident | None = None
    messages: tuple[Message, ...] = ()


def _driver(memory: IncidentState, look: Observation, resolve_after: timedelta) -> _Turn:
    known = memory.of("driver")
    control = look.seen.control
    count = control.failures if control else 0
    restarts = max(0, count - memory.failures) if memory.failures is not None else 0
    failure = _trouble(look, restarts)
    if failure is None:
        return _well_or_not(known, look, resolve_after, well=known is not None and _progresses(known, look))
    gave_up = isinstance(look.action, GiveUp)
    words = words_of_driver(look.stream, failure, gave_up=gave_up)
    if known is None:
        made = replace(_new("driver", look, words), restarts=restarts, gave_up=gave_up)
        return _Turn(made, (Message("opened", look.now, made),))
    worse = gave_up and not known.gave_up
    now = replace(
        known,
        words=words if worse else known.words,
        bad_at=look.now,
        restarts=known.restarts + restarts,
        gave_up=known.gave_up or gave_up,
        well_since=None,
    )
    return _Turn(now, (Message("escalated", look.now, now),) if worse else ())


def _trouble(look: Observation, restarts: int) -> Failure | None:
    """What is wrong with the driver; None when nothing is."""
    action, control = look.action, look.seen.control
    if isinstance(action, Queued):
        action = action.launch
    if isinstance(action, GiveUp):
        # The reason says why no other one is started, too.
        return replace(action.failure or _UNKNOWN, cause=action.reason)
    # A driver that is late to leave is killed too, and that is what was asked for.
    asked = control is None or control.desired != "running" or control.launch_pending
    if isinstance(action, Kill) and not asked:
        return Failure("hung", action.reason)
    if isinstance(action, Launch | Wait) and action.failure is not None:
        return action.failure
    if restarts and control is not None:
        return control.last_failure or _UNKNOWN
    return None


_UNKNOWN = Failure("reported", "the driver had failed, and was started again")


def _progresses(incident: Incident, look: Observation) -> bool:
    """Whether the driver that runs has done something since, or has nothing to do."""
    status = look.seen.own_status
    if not _runs(look) or status is None:
        return False
    since = status.last_batch_at is not None and status.last_batch_at >= incident.bad_at
    return since or bool(status.caught_up)


def _runs(look: Observation) -> bool:
    status = look.seen.own_status
    return isinstance(look.action, Healthy) and status is not None and status.state == "running"


def _measures(
    topic: Literal["critical", "warn"],
    memory: IncidentState,
    look: Observation,
    resolve_after: timedelta,
    may_open: bool,
) -> _Turn:
    known = memory.of(topic)
    found = look.action.warnings if isinstance(look.action, Healthy) else ()
    above = _above(topic, found)
    if known is not None:
        return _well_or_not(known, look, resolve_after, well=_runs(look) and not above)
    if not above or not may_open:
        return _Turn()
    made = _new(topic, look, words_of_finding(look.stream, above[0]))
    return _Turn(made, (Message("opened", look.now, made),))


def _above(topic: Literal["critical", "warn"], found: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(one for one in found if topic == "warn" or one.level == "critical")


def _well_or_not(known: Incident | None, look: Observation, resolve_after: timedelta, well: bool) -> _Turn:
    if known is None:
        return _Turn()
    if not well:
        return _Turn(replace(known, well_since=None))
    blind = known.well_at is None or look.now - known.well_at > resolve_after
    since = look.now if blind or known.well_since is None else known.well_since
    if look.now - since < resolve_after:
        return _Turn(replace(known, well_since=since, well_at=look.now))
    minutes = f"{(look.now - since).total_seconds():.0f} s"
    over = _over(known, since, look.now, f"The stream has been well for {minutes}: {look.action.reason}.")
    return _Turn(None, (Message("resolved", look.now, over),))


def _over(incident: Incident, until: datetime, now: datetime, ended: str) -> Incident:
    return replace(incident, well_since=incident.well_since or now, until=until, ended=ended)


def _new(topic: Topic, look: Observation, words: Words) -> Incident:
    name = f"{look.stream}-{topic}-{look.now:%Y%m%dT%H%M%S%f}"
    return Incident(name, look.stream, topic, words, since=look.now, bad_at=look.now)
